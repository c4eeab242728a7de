// An example input: the one in the document, or one generated from the schema.
import { arrayOrEmpty, objectOrEmpty, resolveRef } from "./model.js";

/** The number of values in a generated example; recursive schemas have no limit. */
const MAX_VALUES = 500;
let remaining = MAX_VALUES;

/** An example for the body of an operation. */
export function exampleOf(api, content) {
  remaining = MAX_VALUES;
  if (content?.example !== undefined) return content.example;
  const declared = resolveRef(api, Object.values(content?.examples ?? {})[0]);
  if (declared?.value !== undefined) return declared.value;
  return generate(api, content?.schema, 0) ?? {};
}

function generate(api, reference, depth) {
  const schema = resolveRef(api, reference);
  if (!schema || typeof schema !== "object") return null;
  const [declared] = [
    schema.const,
    schema.example,
    arrayOrEmpty(schema.examples)[0],
    schema.default,
    arrayOrEmpty(schema.enum)[0],
  ].filter((value) => value !== undefined);
  if (declared !== undefined) return declared;
  remaining -= 1;
  if (depth > 6 || remaining < 0) return null;
  if (Array.isArray(schema.allOf)) return mergeAllOf(api, schema, depth);
  const variants = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(variants))
    return generate(
      api,
      variants.find((variant) => resolveRef(api, variant)?.type !== "null"),
      depth + 1,
    );
  return byType(api, schema, depth);
}

/** Merges the examples of the parts of an `allOf`. */
function mergeAllOf(api, { allOf, ...rest }, depth) {
  const parts = [...allOf, rest].map((part) => generate(api, part, depth + 1));
  const objects = parts.filter((part) => part && typeof part === "object" && !Array.isArray(part));
  return objects.length
    ? Object.assign({}, ...objects)
    : (parts.find((part) => part !== null) ?? null);
}

function byType(api, schema, depth) {
  const types = [
    schema.type ?? (schema.properties ? "object" : schema.items ? "array" : "null"),
  ].flat();
  switch (types.find((type) => type !== "null")) {
    case "object":
      return object(api, schema, depth);
    case "array": {
      const prefix = arrayOrEmpty(schema.prefixItems).map((item) => generate(api, item, depth + 1));
      const missing =
        Math.min(Number(schema.minItems) || (depth < 2 && schema.items ? 1 : 0), 20) -
        prefix.length;
      return [
        ...prefix,
        ...Array.from({ length: Math.max(missing, 0) }, () =>
          generate(api, schema.items, depth + 1),
        ),
      ];
    }
    case "string":
      return text(schema);
    case "integer":
    case "number":
      return number(schema);
    case "boolean":
      return false;
    default:
      return null;
  }
}

/** The required properties, and those with a declared value. */
function object(api, schema, depth) {
  const required = new Set(arrayOrEmpty(schema.required));
  const example = {};
  for (const [name, property] of Object.entries(objectOrEmpty(schema.properties))) {
    const resolved = resolveRef(api, property);
    const hasValue = ["default", "example", "examples", "const"].some(
      (key) => resolved?.[key] !== undefined && resolved[key] !== null,
    );
    if (required.has(name) || hasValue) example[name] = generate(api, property, depth + 1);
  }
  return example;
}

const FORMATS = {
  "date-time": "2026-01-31T12:00:00Z",
  date: "2026-01-31",
  time: "12:00:00Z",
  duration: "PT1H",
  email: "ada@example.com",
  hostname: "example.com",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
  uri: "https://example.com/",
  url: "https://example.com/",
  uuid: "123e4567-e89b-42d3-a456-426614174000",
};

function text({ format, minLength = 0, maxLength = Infinity }) {
  const plain = FORMATS[format] ?? "text";
  return plain.padEnd(Math.min(Number(minLength) || 0, 200), "x").slice(0, Number(maxLength));
}

function number({ type, minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf }) {
  const step = multipleOf ?? 1;
  const lowest = minimum ?? (exclusiveMinimum === undefined ? undefined : exclusiveMinimum + step);
  const highest = maximum ?? (exclusiveMaximum === undefined ? undefined : exclusiveMaximum - step);
  const inRange = Math.min(Math.max(step, lowest ?? -Infinity), highest ?? Infinity);
  const value = multipleOf ? Math.ceil(inRange / step) * step : inRange;
  return [type].flat().includes("integer") ? Math.ceil(value) : value;
}
