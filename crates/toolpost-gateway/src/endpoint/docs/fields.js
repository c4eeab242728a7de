// The input as form fields, one for each property; arrays and objects are JSON text fields.
import { el } from "./dom.js";
import { parseExact } from "./json.js";
import { arrayOrEmpty, objectOrEmpty, resolveRef } from "./model.js";

/** Inputs with more properties are edited as JSON. */
const MAX_FIELDS = 24;

/** Whether an input can be edited as fields. */
export function hasFields(schema) {
  const isFlat =
    schema && typeof schema === "object" && !schema.allOf && !schema.oneOf && !schema.anyOf;
  const count = isFlat ? Object.keys(objectOrEmpty(schema.properties)).length : 0;
  return count > 0 && count <= MAX_FIELDS;
}

/** The fields of a schema with the values of `value`; `onChange` gets the new value. */
export function fieldsView(api, schema, value, onChange) {
  const current = { ...value };
  const required = new Set(arrayOrEmpty(schema.required));
  const all = Object.entries(schema.properties).map(([name, property], index) => {
    const field = fieldOf(withoutNull(api, property));
    const control = field.createControl(current[name]);
    const error = el("span", {
      class: "error-text",
      id: `field-error-${index}`,
      "aria-live": "polite",
    });
    control.id = `field-${index}`;
    control.setAttribute("aria-describedby", error.id);
    control.addEventListener("input", () => {
      try {
        const parsed =
          control.value === "" && !(required.has(name) && field.isText)
            ? undefined
            : field.parse(control.value);
        if (parsed === undefined) delete current[name];
        else current[name] = parsed;
        error.textContent = "";
      } catch (parseError) {
        error.textContent = parseError.message;
      }
      control.toggleAttribute("aria-invalid", error.textContent !== "");
      onChange(
        ordered(schema, current),
        all.some(({ error }) => error.textContent),
      );
    });
    const label = el(
      "label",
      { for: control.id },
      el("code", null, name),
      el("span", { class: "type" }, field.label),
      required.has(name) && el("span", { class: "required" }, "required"),
    );
    return { error, view: el("div", { class: "field" }, label, control, error) };
  });
  return el(
    "div",
    { class: "fields" },
    all.map(({ view }) => view),
  );
}

/** The properties in the order of the schema. */
function ordered(schema, value) {
  const names = Object.keys(schema.properties).filter((name) => Object.hasOwn(value, name));
  return Object.fromEntries([...names, ...Object.keys(value)].map((name) => [name, value[name]]));
}

/** Whether most fields are JSON, so that one JSON text is easier to edit. */
export function isMostlyJson(api, schema) {
  const fields = Object.values(schema.properties).map((property) =>
    fieldOf(withoutNull(api, property)),
  );
  return fields.filter(({ isJson }) => isJson).length * 2 > fields.length;
}

/** A schema without its null variant: an empty field means no value. */
function withoutNull(api, property) {
  const schema = resolveRef(api, property);
  const variants = arrayOrEmpty(schema?.anyOf ?? schema?.oneOf)
    .map((variant) => resolveRef(api, variant))
    .filter((variant) => variant?.type !== "null");
  return variants.length === 1 ? variants[0] : schema;
}

function fieldOf(schema) {
  const types = [schema?.type ?? []].flat().filter((type) => type !== "null");
  if (Array.isArray(schema?.enum)) return selectField(schema.enum);
  if (types.length !== 1) return jsonField("JSON");
  switch (types[0]) {
    case "boolean":
      return selectField([true, false], "boolean");
    case "integer":
    case "number":
      return numberField(types[0]);
    case "string":
      return textField(schema);
    default:
      return jsonField(types[0] === "array" ? "list, as JSON" : `${types[0]}, as JSON`);
  }
}

function selectField(values, label = "one of") {
  const option = (value) =>
    el(
      "option",
      { value: JSON.stringify(value) },
      typeof value === "string" ? value : JSON.stringify(value),
    );
  return {
    label,
    createControl(value) {
      const control = el("select", null, el("option", { value: "" }, "—"), values.map(option));
      control.value = value === undefined ? "" : JSON.stringify(value);
      return control;
    },
    parse: (text) => parseExact(text),
  };
}

function numberField(type) {
  return {
    label: type,
    createControl: (value) =>
      withValue(
        el("input", { type: "text", inputmode: "decimal", autocomplete: "off" }),
        value === undefined ? "" : JSON.stringify(value),
      ),
    parse(text) {
      if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()))
        throw new Error("not a number");
      return parseExact(text.trim());
    },
  };
}

function textField(schema) {
  const isLong = (schema.maxLength ?? 0) > 200;
  const createElement = () =>
    isLong
      ? el("textarea", { rows: 3 })
      : el("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  return {
    label: schema.format ?? "string",
    isText: true,
    createControl: (value) => withValue(createElement(), typeof value === "string" ? value : ""),
    parse: (text) => text,
  };
}

function jsonField(label) {
  return {
    label,
    isJson: true,
    createControl: (value) =>
      withValue(
        el("textarea", {
          rows:
            value === undefined
              ? 1
              : Math.min(JSON.stringify(value, null, 2).split("\n").length, 12),
          class: "mono",
          spellcheck: "false",
        }),
        value === undefined ? "" : JSON.stringify(value, null, 2),
      ),
    parse(text) {
      try {
        return parseExact(text);
      } catch {
        throw new Error("not JSON");
      }
    },
  };
}

function withValue(control, value) {
  control.value = value;
  return control;
}
