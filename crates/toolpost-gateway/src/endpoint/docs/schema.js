// Shows a JSON Schema: one row for each property; nested rows are created when they are opened.
import { collapsible, el } from "./dom.js";
import { jsonView } from "./json.js";
import { inlineMarkdown, markdown } from "./markdown.js";
import { arrayOrEmpty, objectOrEmpty, resolveRef, withLocalDefs } from "./model.js";

/** The rows of a schema and its JSON; `emptyText` is shown for an empty schema. */
export function schemaView(rootApi, schema, emptyText) {
  const api = withLocalDefs(rootApi, schema);
  const resolved = resolveRef(api, schema);
  const children = rows(api, resolved);
  const raw = () => jsonView(JSON.stringify(resolved ?? schema), "JSON Schema");
  return el(
    "div",
    { class: "schema" },
    children.length > 0 && isObject(api, resolved) ? null : summary(api, resolved, emptyText),
    children,
    schema !== undefined && collapsible("JSON Schema", raw, { class: "raw" }),
  );
}

function isObject(api, schema) {
  return Object.keys(properties(api, schema)).length > 0;
}

function summary(api, schema, emptyText) {
  if (isEmpty(schema)) return el("p", { class: "quiet" }, emptyText);
  return el(
    "p",
    { class: "type-line" },
    el("span", { class: "type" }, typeName(api, schema)),
    constraints(schema).map((text) => el("span", { class: "limit" }, text)),
    schema.description && el("span", { class: "quiet" }, inlineMarkdown(schema.description)),
  );
}

function isEmpty(schema) {
  if (schema === undefined || schema === true) return true;
  if (!schema || typeof schema !== "object") return false;
  const keywords = Object.keys(schema).filter(
    (key) => !["$schema", "title", "description", "additionalProperties"].includes(key),
  );
  const hasNoProperties = keywords.every(
    (key) =>
      key === "type" ||
      (key === "properties" && !Object.keys(objectOrEmpty(schema.properties)).length),
  );
  return (
    keywords.length === 0 ||
    (hasNoProperties &&
      schema.type === "object" &&
      typeof schema.additionalProperties !== "object")
  );
}

/** The subschemas of a schema as a list of rows; empty if there are none. */
function rows(api, schema) {
  const items = subschemas(api, schema);
  return items.length
    ? [
        el(
          "ul",
          { class: "rows" },
          items.map((item) => row(api, item)),
        ),
      ]
    : [];
}

/** The subschemas of a schema: a name or a label, the schema, and whether it is required. */
function subschemas(api, schema, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return [];
  const required = requiredOf(api, schema);
  const declared = Object.entries(properties(api, schema)).map(([name, schema]) => ({
    name,
    schema,
    required: required.has(name),
  }));
  const patterns = Object.entries(objectOrEmpty(schema.patternProperties)).map(
    ([pattern, schema]) => ({ label: `properties that match ${pattern}`, schema }),
  );
  const additional = schema.additionalProperties;
  const others =
    additional && typeof additional === "object"
      ? [{ label: "all other properties", schema: additional }]
      : [];
  const prefix = arrayOrEmpty(schema.prefixItems).map((schema, index) => ({
    label: `item ${index + 1}`,
    schema,
  }));
  const items =
    schema.items && typeof schema.items === "object"
      ? [{ label: "items", schema: schema.items }]
      : [];
  const alternatives = variants(api, schema, depth);
  return [...declared, ...patterns, ...others, ...prefix, ...items, ...alternatives];
}

/** The properties, including those of each part of an `allOf`. */
function properties(api, schema, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return {};
  const parts = arrayOrEmpty(schema.allOf).map((part) =>
    properties(api, resolveRef(api, part), depth + 1),
  );
  return Object.assign({}, ...parts, objectOrEmpty(schema.properties));
}

function requiredOf(api, schema, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return new Set();
  const parts = arrayOrEmpty(schema.allOf).flatMap((part) => [
    ...requiredOf(api, resolveRef(api, part), depth + 1),
  ]);
  return new Set([...parts, ...arrayOrEmpty(schema.required)]);
}

/** The variants of a `oneOf` or `anyOf`, without `null`, which is part of the type name. */
function variants(api, schema, depth = 0) {
  const all = arrayOrEmpty(schema.oneOf ?? schema.anyOf).map((variant) => resolveRef(api, variant));
  const shown = all.filter((variant) => variant?.type !== "null");
  if (shown.length === 1) return subschemas(api, shown[0], depth + 1);
  const hasDetails = (variant) =>
    subschemas(api, variant, depth + 1).length || variant?.description;
  if (!shown.some(hasDetails)) return [];
  return shown.map((schema, index) => ({ label: schema?.title ?? `variant ${index + 1}`, schema }));
}

function row(api, { name, label, schema, required }) {
  const resolved = resolveRef(api, schema);
  const hasNested = subschemas(api, resolved).length > 0;
  const head = el(
    "div",
    { class: "head" },
    name === undefined
      ? el("span", { class: "row-label" }, label)
      : el("code", { class: "name" }, name),
    el("span", { class: "type" }, typeName(api, resolved, schema)),
    required && el("span", { class: "required" }, "required"),
    resolved?.deprecated && el("span", { class: "limit" }, "deprecated"),
  );
  const description =
    resolved?.description && el("div", { class: "markdown" }, markdown(resolved.description));
  const inner = hasNested && unwrapItems(api, resolved);
  const nested =
    hasNested && collapsible(nestedTitle(api, inner), () => rows(api, inner), { class: "nested" });
  return el("li", null, head, constraintsView(resolved), description, nested);
}

/** For an array of objects, the schema of its items, so that their properties are shown directly. */
function unwrapItems(api, schema) {
  const items = subschemas(api, schema);
  const only =
    items.length === 1 && items[0].name === undefined ? resolveRef(api, items[0].schema) : null;
  return only && isObject(api, only) ? only : schema;
}

function nestedTitle(api, schema) {
  const count = Object.keys(properties(api, schema)).length;
  if (count) return `${count} ${count === 1 ? "property" : "properties"}`;
  return variants(api, schema).length ? "Variants" : "More";
}

function constraintsView(schema) {
  const all = constraints(schema).map((text) => el("span", { class: "limit" }, text));
  const values = schema && typeof schema === "object" ? schema.enum : undefined;
  if (Array.isArray(values)) {
    const shown = values
      .slice(0, 40)
      .map((value) => el("code", { class: "value" }, JSON.stringify(value)));
    all.push(
      ...shown,
      values.length > 40 ? el("span", { class: "limit" }, `and ${values.length - 40} more`) : "",
    );
  }
  return all.length > 0 && el("div", { class: "limits" }, all);
}

/** The name of a type, as the page shows it. */
function typeName(api, schema, original, depth = 0) {
  if (schema === undefined) return original?.$ref ?? "any JSON";
  if (schema === true) return "any JSON";
  if (schema === false) return "no value";
  if (!schema || typeof schema !== "object") return "any JSON";
  if (Object.hasOwn(schema, "const")) return JSON.stringify(schema.const);
  const variants = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(variants) && depth < 3) return unionName(api, variants, depth);
  const types = [schema.type ?? inferType(api, schema)].flat().filter(Boolean);
  return types.map((type) => singleTypeName(api, schema, type, depth)).join(" or ") || "any JSON";
}

function unionName(api, variants, depth) {
  const nameOf = (variant) => typeName(api, resolveRef(api, variant), variant, depth + 1);
  const names = [...new Set(variants.map(nameOf))];
  return names.length > 4 ? `one of ${variants.length} variants` : names.join(" or ");
}

function inferType(api, schema) {
  if (Array.isArray(schema.enum))
    return [
      ...new Set(
        schema.enum.map((value) =>
          value === null ? "null" : Array.isArray(value) ? "array" : typeof value,
        ),
      ),
    ];
  if (isObject(api, schema) || typeof schema.additionalProperties === "object") return "object";
  return schema.items || schema.prefixItems ? "array" : undefined;
}

function singleTypeName(api, schema, type, depth) {
  const inner = (part) => typeName(api, resolveRef(api, part), part, depth + 1);
  if (type === "array") {
    const item = schema.items && depth < 3 ? inner(schema.items) : null;
    return item && item !== "any JSON" ? `list of ${item}` : "list";
  }
  const others = schema.additionalProperties;
  const isMap = type === "object" && others && typeof others === "object" && !schema.properties;
  if (isMap && depth < 3) return `map of ${inner(others)}`;
  return schema.title && type === "object" && depth > 0 ? schema.title : type;
}

/** The constraints of a schema besides its type, each as a short text. */
function constraints(schema) {
  if (!schema || typeof schema !== "object") return [];
  const texts = [];
  const add = (key, format) => {
    if (schema[key] !== undefined && schema[key] !== false) texts.push(format(schema[key]));
  };
  add("format", (format) => String(format));
  add("minimum", (minimum) => `≥ ${minimum}`);
  add("exclusiveMinimum", (minimum) => `> ${minimum}`);
  add("maximum", (maximum) => `≤ ${maximum}`);
  add("exclusiveMaximum", (maximum) => `< ${maximum}`);
  add("multipleOf", (step) => `a multiple of ${step}`);
  texts.push(...rangeText(schema.minLength, schema.maxLength, "character"));
  texts.push(...rangeText(schema.minItems, schema.maxItems, "item"));
  texts.push(...rangeText(schema.minProperties, schema.maxProperties, "property", "properties"));
  add("pattern", (pattern) => `matches ${pattern}`);
  add("uniqueItems", () => "unique items");
  add("contentEncoding", (encoding) => String(encoding));
  add("contentMediaType", (type) => String(type));
  add("readOnly", () => "read only");
  add("writeOnly", () => "write only");
  if (schema.default !== undefined && schema.default !== null)
    texts.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.additionalProperties === false && schema.properties) texts.push("no other properties");
  if (schema.not || schema.if || schema.dependentRequired || schema.dependentSchemas)
    texts.push("further conditions in its JSON Schema");
  return texts;
}

function rangeText(minimum, maximum, singular, plural = `${singular}s`) {
  const count = (number) => `${number} ${number === 1 ? singular : plural}`;
  if (minimum && maximum !== undefined)
    return [
      minimum === maximum ? `exactly ${count(minimum)}` : `${minimum} to ${count(maximum)}`,
    ];
  if (minimum) return [`at least ${count(minimum)}`];
  return maximum === undefined ? [] : [`at most ${count(maximum)}`];
}
