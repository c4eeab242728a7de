// Schemas for the eye: one row for each property, deeper ones when they are opened.
import { el, fold } from "./dom.js";
import { jsonView } from "./json.js";
import { around, follow, listOf, recordOf } from "./model.js";
import { inline, words } from "./words.js";

/** A schema as a whole, with its text behind it. */
export function schemaView(wholeApi, schema, nothing) {
  const api = around(wholeApi, schema);
  const whole = follow(api, schema);
  const children = rows(api, whole);
  const raw = () => jsonView(JSON.stringify(whole ?? schema), "JSON Schema");
  return el(
    "div",
    { class: "schema" },
    children.length > 0 && isObject(api, whole) ? null : summary(api, whole, nothing),
    children,
    schema !== undefined && fold("JSON Schema", raw, { class: "raw" }),
  );
}

function isObject(api, schema) {
  return Object.keys(properties(api, schema)).length > 0;
}

function summary(api, schema, nothing) {
  if (isEmpty(schema)) return el("p", { class: "quiet" }, nothing);
  return el(
    "p",
    { class: "type-line" },
    el("span", { class: "type" }, label(api, schema)),
    limits(schema).map((limit) => el("span", { class: "limit" }, limit)),
    schema.description && el("span", { class: "quiet" }, inline(schema.description)),
  );
}

function isEmpty(schema) {
  if (schema === undefined || schema === true) return true;
  if (!schema || typeof schema !== "object") return false;
  const says = Object.keys(schema).filter(
    (key) => !["$schema", "title", "description", "additionalProperties"].includes(key),
  );
  const isBare = says.every(
    (key) =>
      key === "type" || (key === "properties" && !Object.keys(recordOf(schema.properties)).length),
  );
  return (
    says.length === 0 ||
    (isBare && schema.type === "object" && typeof schema.additionalProperties !== "object")
  );
}

/** Everything below a schema, as a list of rows; empty where there is nothing below. */
function rows(api, schema) {
  const items = below(api, schema);
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

/** What is below a schema: a name, a schema, and whether it has to be there. */
function below(api, schema, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return [];
  const required = requiredOf(api, schema);
  const named = Object.entries(properties(api, schema)).map(([name, schema]) => ({
    name,
    schema,
    required: required.has(name),
  }));
  const patterns = Object.entries(recordOf(schema.patternProperties)).map(([pattern, schema]) => ({
    aside: `every property like ${pattern}`,
    schema,
  }));
  const others = schema.additionalProperties;
  const rest =
    others && typeof others === "object" ? [{ aside: "every other property", schema: others }] : [];
  const places = listOf(schema.prefixItems).map((schema, index) => ({
    aside: `item ${index + 1}`,
    schema,
  }));
  const items =
    schema.items && typeof schema.items === "object"
      ? [{ aside: "every item", schema: schema.items }]
      : [];
  return [...named, ...patterns, ...rest, ...places, ...items, ...variants(api, schema, depth)];
}

/** The properties, those of every part of an `allOf` among them. */
function properties(api, schema, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return {};
  const parts = listOf(schema.allOf).map((part) => properties(api, follow(api, part), depth + 1));
  return Object.assign({}, ...parts, recordOf(schema.properties));
}

function requiredOf(api, schema, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return new Set();
  const parts = listOf(schema.allOf).flatMap((part) => [
    ...requiredOf(api, follow(api, part), depth + 1),
  ]);
  return new Set([...parts, ...listOf(schema.required)]);
}

/** The forms of a choice, without `null`, which is in the label. */
function variants(api, schema, depth = 0) {
  const choice = listOf(schema.oneOf ?? schema.anyOf).map((form) => follow(api, form));
  const forms = choice.filter((form) => form?.type !== "null");
  if (forms.length === 1) return below(api, forms[0], depth + 1);
  if (!forms.some((form) => below(api, form, depth + 1).length || form?.description)) return [];
  return forms.map((schema, index) => ({ aside: schema?.title ?? `form ${index + 1}`, schema }));
}

function row(api, { name, aside, schema, required }) {
  const whole = follow(api, schema);
  const deeper = below(api, whole).length > 0;
  const head = el(
    "div",
    { class: "head" },
    name === undefined
      ? el("span", { class: "aside-name" }, aside)
      : el("code", { class: "name" }, name),
    el("span", { class: "type" }, label(api, whole, schema)),
    required && el("span", { class: "required" }, "required"),
    whole?.deprecated && el("span", { class: "limit" }, "deprecated"),
  );
  const said = whole?.description && el("div", { class: "words" }, words(whole.description));
  const inner = deeper && innermost(api, whole);
  const nested =
    deeper && fold(nestedTitle(api, inner), () => rows(api, inner), { class: "nested" });
  return el("li", null, head, chips(whole), said, nested);
}

/** Of a list of objects the properties are of interest, and not that they are those of its items. */
function innermost(api, schema) {
  const items = below(api, schema);
  const only =
    items.length === 1 && items[0].name === undefined ? follow(api, items[0].schema) : null;
  return only && isObject(api, only) ? only : schema;
}

function nestedTitle(api, schema) {
  const count = Object.keys(properties(api, schema)).length;
  if (count) return `${count} ${count === 1 ? "property" : "properties"}`;
  return variants(api, schema).length ? "Forms" : "More";
}

function chips(schema) {
  const all = limits(schema).map((limit) => el("span", { class: "limit" }, limit));
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

/** A type in words. */
function label(api, schema, original, depth = 0) {
  if (schema === undefined) return original?.$ref ?? "any JSON";
  if (schema === true) return "any JSON";
  if (schema === false) return "nothing";
  if (!schema || typeof schema !== "object") return "any JSON";
  if (Object.hasOwn(schema, "const")) return JSON.stringify(schema.const);
  const choice = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(choice) && depth < 3) return choiceLabel(api, choice, depth);
  const types = [schema.type ?? guess(api, schema)].flat().filter(Boolean);
  return types.map((type) => typeLabel(api, schema, type, depth)).join(" or ") || "any JSON";
}

function choiceLabel(api, choice, depth) {
  const labels = [...new Set(choice.map((form) => label(api, follow(api, form), form, depth + 1)))];
  return labels.length > 4 ? `one of ${choice.length} forms` : labels.join(" or ");
}

function guess(api, schema) {
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

function typeLabel(api, schema, type, depth) {
  const inner = (part) => label(api, follow(api, part), part, depth + 1);
  if (type === "array") {
    const each = schema.items && depth < 3 ? inner(schema.items) : null;
    return each && each !== "any JSON" ? `list of ${each}` : "list";
  }
  const others = schema.additionalProperties;
  const isMap = type === "object" && others && typeof others === "object" && !schema.properties;
  if (isMap && depth < 3) return `map of ${inner(others)}`;
  return schema.title && type === "object" && depth > 0 ? schema.title : type;
}

/** What else has to hold, in few words. */
function limits(schema) {
  if (!schema || typeof schema !== "object") return [];
  const said = [];
  const say = (key, words) => {
    if (schema[key] !== undefined && schema[key] !== false) said.push(words(schema[key]));
  };
  const text = (value) => JSON.stringify(value);
  say("format", (format) => String(format));
  say("minimum", (least) => `≥ ${least}`);
  say("exclusiveMinimum", (least) => `> ${least}`);
  say("maximum", (most) => `≤ ${most}`);
  say("exclusiveMaximum", (most) => `< ${most}`);
  say("multipleOf", (step) => `a multiple of ${step}`);
  said.push(...between(schema.minLength, schema.maxLength, "character"));
  said.push(...between(schema.minItems, schema.maxItems, "item"));
  said.push(...between(schema.minProperties, schema.maxProperties, "property", "properties"));
  say("pattern", (pattern) => `like ${pattern}`);
  say("uniqueItems", () => "no two alike");
  say("contentEncoding", (encoding) => String(encoding));
  say("contentMediaType", (type) => String(type));
  say("readOnly", () => "read only");
  say("writeOnly", () => "write only");
  if (schema.default !== undefined && schema.default !== null)
    said.push(`default ${text(schema.default)}`);
  if (schema.additionalProperties === false && schema.properties) said.push("no other properties");
  if (schema.not || schema.if || schema.dependentRequired || schema.dependentSchemas)
    said.push("further conditions in its JSON Schema");
  return said;
}

function between(least, most, one, many = `${one}s`) {
  const count = (number) => `${number} ${number === 1 ? one : many}`;
  if (least && most !== undefined)
    return [least === most ? `exactly ${count(least)}` : `${least} to ${count(most)}`];
  if (least) return [`at least ${count(least)}`];
  return most === undefined ? [] : [`at most ${count(most)}`];
}
