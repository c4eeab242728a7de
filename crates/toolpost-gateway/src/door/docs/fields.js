// The input as fields, one for each property; whatever is no plain value is a field of JSON.
import { el } from "./dom.js";
import { exact } from "./json.js";
import { follow, listOf, recordOf } from "./model.js";

/** More fields than this are easier to write as JSON. */
const MOST = 24;

/** Whether an input can be typed into fields. */
export function hasFields(schema) {
  const isFlat =
    schema && typeof schema === "object" && !schema.allOf && !schema.oneOf && !schema.anyOf;
  const count = isFlat ? Object.keys(recordOf(schema.properties)).length : 0;
  return count > 0 && count <= MOST;
}

/** The fields of a schema, with the values of `value`; `changed` is told the new value. */
export function fieldsView(api, schema, value, changed) {
  const kept = { ...value };
  const required = new Set(listOf(schema.required));
  const all = Object.entries(schema.properties).map(([name, part], index) => {
    const field = fieldOf(plain(api, part));
    const control = field.make(kept[name]);
    const wrong = el("span", { class: "wrong", id: `field-wrong-${index}`, "aria-live": "polite" });
    control.id = `field-${index}`;
    control.setAttribute("aria-describedby", wrong.id);
    control.addEventListener("input", () => {
      try {
        const read =
          control.value === "" && !(required.has(name) && field.isText)
            ? undefined
            : field.read(control.value);
        if (read === undefined) delete kept[name];
        else kept[name] = read;
        wrong.textContent = "";
      } catch (error) {
        wrong.textContent = error.message;
      }
      control.toggleAttribute("aria-invalid", wrong.textContent !== "");
      changed(
        ordered(schema, kept),
        all.some(({ wrong }) => wrong.textContent),
      );
    });
    const label = el(
      "label",
      { for: control.id },
      el("code", null, name),
      el("span", { class: "type" }, field.label),
      required.has(name) && el("span", { class: "required" }, "required"),
    );
    return { wrong, view: el("div", { class: "field" }, label, control, wrong) };
  });
  return el(
    "div",
    { class: "fields" },
    all.map(({ view }) => view),
  );
}

/** In the order of the schema, whichever was typed first. */
function ordered(schema, value) {
  const names = Object.keys(schema.properties).filter((name) => Object.hasOwn(value, name));
  return Object.fromEntries([...names, ...Object.keys(value)].map((name) => [name, value[name]]));
}

/** Whether most of the fields would be JSON, so that one text is easier. */
export function isMostlyJson(api, schema) {
  const fields = Object.values(schema.properties).map((part) => fieldOf(plain(api, part)));
  return fields.filter(({ isJson }) => isJson).length * 2 > fields.length;
}

/** A schema without the choice to be null: an empty field says that. */
function plain(api, part) {
  const schema = follow(api, part);
  const forms = listOf(schema?.anyOf ?? schema?.oneOf)
    .map((form) => follow(api, form))
    .filter((form) => form?.type !== "null");
  return forms.length === 1 ? forms[0] : schema;
}

function fieldOf(schema) {
  const types = [schema?.type ?? []].flat().filter((type) => type !== "null");
  if (Array.isArray(schema?.enum)) return choice(schema.enum);
  if (types.length !== 1) return json("JSON");
  switch (types[0]) {
    case "boolean":
      return choice([true, false], "boolean");
    case "integer":
    case "number":
      return number(types[0]);
    case "string":
      return text(schema);
    default:
      return json(types[0] === "array" ? "list, as JSON" : `${types[0]}, as JSON`);
  }
}

function choice(values, label = "one of") {
  const option = (value) =>
    el(
      "option",
      { value: JSON.stringify(value) },
      typeof value === "string" ? value : JSON.stringify(value),
    );
  return {
    label,
    make(value) {
      const control = el("select", null, el("option", { value: "" }, "—"), values.map(option));
      control.value = value === undefined ? "" : JSON.stringify(value);
      return control;
    },
    read: (typed) => exact(typed),
  };
}

function number(type) {
  return {
    label: type,
    make: (value) =>
      typed(
        el("input", { type: "text", inputmode: "decimal", autocomplete: "off" }),
        value === undefined ? "" : JSON.stringify(value),
      ),
    read(text) {
      if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()))
        throw new Error("not a number");
      return exact(text.trim());
    },
  };
}

function text(schema) {
  const isLong = (schema.maxLength ?? 0) > 200;
  const control = () =>
    isLong
      ? el("textarea", { rows: 3 })
      : el("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  return {
    label: schema.format ?? "string",
    isText: true,
    make: (value) => typed(control(), typeof value === "string" ? value : ""),
    read: (text) => text,
  };
}

function json(label) {
  return {
    label,
    isJson: true,
    make: (value) =>
      typed(
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
    read(text) {
      try {
        return exact(text);
      } catch {
        throw new Error("not JSON");
      }
    },
  };
}

function typed(control, value) {
  control.value = value;
  return control;
}
