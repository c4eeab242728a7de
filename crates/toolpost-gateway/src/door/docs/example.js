// An input to begin with: the document's own example, or one that is made from the schema.
import { follow, listOf, recordOf } from "./model.js";

/** How many values an example is made of; lists of lists of lists would be endless. */
const MOST = 500;
let left = MOST;

/** A value for the body of an operation. */
export function exampleOf(api, content) {
  left = MOST;
  if (content?.example !== undefined) return content.example;
  const given = follow(api, Object.values(content?.examples ?? {})[0]);
  if (given?.value !== undefined) return given.value;
  return make(api, content?.schema, 0) ?? {};
}

function make(api, reference, depth) {
  const schema = follow(api, reference);
  if (!schema || typeof schema !== "object") return null;
  const [given] = [
    schema.const,
    schema.example,
    listOf(schema.examples)[0],
    schema.default,
    listOf(schema.enum)[0],
  ].filter((value) => value !== undefined);
  if (given !== undefined) return given;
  left -= 1;
  if (depth > 6 || left < 0) return null;
  if (Array.isArray(schema.allOf)) return together(api, schema, depth);
  const choice = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(choice))
    return make(
      api,
      choice.find((form) => follow(api, form)?.type !== "null"),
      depth + 1,
    );
  return byType(api, schema, depth);
}

/** What every part of an `allOf` asks for. */
function together(api, { allOf, ...rest }, depth) {
  const parts = [...allOf, rest].map((part) => make(api, part, depth + 1));
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
      const places = listOf(schema.prefixItems).map((item) => make(api, item, depth + 1));
      const missing =
        Math.min(Number(schema.minItems) || (depth < 2 && schema.items ? 1 : 0), 20) -
        places.length;
      return [
        ...places,
        ...Array.from({ length: Math.max(missing, 0) }, () => make(api, schema.items, depth + 1)),
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

/** What is required, and what has a value to show. */
function object(api, schema, depth) {
  const required = new Set(listOf(schema.required));
  const made = {};
  for (const [name, part] of Object.entries(recordOf(schema.properties))) {
    const whole = follow(api, part);
    const shows = ["default", "example", "examples", "const"].some(
      (key) => whole?.[key] !== undefined && whole[key] !== null,
    );
    if (required.has(name) || shows) made[name] = make(api, part, depth + 1);
  }
  return made;
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
  const least = minimum ?? (exclusiveMinimum === undefined ? undefined : exclusiveMinimum + step);
  const most = maximum ?? (exclusiveMaximum === undefined ? undefined : exclusiveMaximum - step);
  const near = Math.min(Math.max(step, least ?? -Infinity), most ?? Infinity);
  const whole = multipleOf ? Math.ceil(near / step) * step : near;
  return [type].flat().includes("integer") ? Math.ceil(whole) : whole;
}
