// The input editor: form fields or JSON text.
import { el } from "./dom.js";
import { fieldsView, hasFields, isMostlyJson } from "./fields.js";
import { parseExact } from "./json.js";

/** The editor; `draft.text` is always the JSON of the input. */
export function inputView(api, schema, draft, refresh) {
  const container = el("div", { class: "input", id: "try-input" });
  const onChange = (text, isInvalid) => {
    Object.assign(draft, { text, isInvalid });
    refresh();
  };
  const showJson = () => {
    const area = el("textarea", {
      class: "mono",
      rows: Math.min(Math.max(draft.text.split("\n").length, 3), 18),
      spellcheck: "false",
      autocapitalize: "off",
      "aria-label": "Input as JSON",
      "aria-describedby": "input-error",
    });
    area.value = draft.text;
    area.addEventListener("input", () => onChange(area.value, false));
    container.replaceChildren(area);
  };
  const showFields = () => {
    const value = parseObject(draft.text);
    if (!value) return false;
    const onFieldChange = (value, isInvalid) =>
      onChange(JSON.stringify(value, null, 2), isInvalid);
    container.replaceChildren(fieldsView(api, schema, value, onFieldChange));
    return true;
  };
  const canSwitch = hasFields(schema) && showFields();
  const isJson = !canSwitch || isMostlyJson(api, schema);
  if (isJson) showJson();
  return [
    canSwitch && formatSwitch(isJson, showFields, showJson, () => onChange(draft.text, false)),
    container,
  ];
}

function formatSwitch(isJson, showFields, showJson, onSwitch) {
  const fields = el("button", { type: "button", "aria-pressed": String(!isJson) }, "Fields");
  const json = el("button", { type: "button", "aria-pressed": String(isJson) }, "JSON");
  const select = (isJson) => {
    if (isJson) showJson();
    else if (!showFields()) return;
    fields.setAttribute("aria-pressed", String(!isJson));
    json.setAttribute("aria-pressed", String(isJson));
    onSwitch();
  };
  fields.addEventListener("click", () => select(false));
  json.addEventListener("click", () => select(true));
  return el(
    "div",
    { class: "switch", role: "group", "aria-label": "Input format" },
    fields,
    json,
  );
}

/** The JSON object in a string, or null. */
function parseObject(text) {
  try {
    const value = text.trim() ? parseExact(text) : {};
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
