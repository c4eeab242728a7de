// What is typed: fields or JSON, one of which is the other.
import { el } from "./dom.js";
import { fieldsView, hasFields, isMostlyJson } from "./fields.js";
import { exact } from "./json.js";

/** Fields or JSON, whichever suits; the text of the draft is what counts. */
export function inputView(api, schema, draft, refresh) {
  const place = el("div", { class: "input", id: "try-input" });
  const changed = (text, isWrong) => {
    Object.assign(draft, { text, isWrong });
    refresh();
  };
  const asJson = () => {
    const area = el("textarea", {
      class: "mono",
      rows: Math.min(Math.max(draft.text.split("\n").length, 3), 18),
      spellcheck: "false",
      autocapitalize: "off",
      "aria-label": "Input as JSON",
      "aria-describedby": "input-wrong",
    });
    area.value = draft.text;
    area.addEventListener("input", () => changed(area.value, false));
    place.replaceChildren(area);
  };
  const asFields = () => {
    const value = objectOf(draft.text);
    if (!value) return false;
    const write = (value, isWrong) => changed(JSON.stringify(value, null, 2), isWrong);
    place.replaceChildren(fieldsView(api, schema, value, write));
    return true;
  };
  const canSwitch = hasFields(schema) && asFields();
  const isJson = !canSwitch || isMostlyJson(api, schema);
  if (isJson) asJson();
  return [
    canSwitch && switchView(isJson, asFields, asJson, () => changed(draft.text, false)),
    place,
  ];
}

function switchView(isJson, asFields, asJson, changed) {
  const fields = el("button", { type: "button", "aria-pressed": String(!isJson) }, "Fields");
  const json = el("button", { type: "button", "aria-pressed": String(isJson) }, "JSON");
  const choose = (isJson) => {
    if (isJson) asJson();
    else if (!asFields()) return;
    fields.setAttribute("aria-pressed", String(!isJson));
    json.setAttribute("aria-pressed", String(isJson));
    changed();
  };
  fields.addEventListener("click", () => choose(false));
  json.addEventListener("click", () => choose(true));
  return el(
    "div",
    { class: "switch", role: "group", "aria-label": "How the input is typed" },
    fields,
    json,
  );
}

function objectOf(text) {
  try {
    const value = text.trim() ? exact(text) : {};
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
