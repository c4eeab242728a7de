// Renders text of other participants; control and invisible characters are escaped.
import { collapsible, el } from "../docs/dom.js";
import { jsonView } from "../docs/json.js";

/** Control characters and characters that change the text direction. */
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
/** The same and all invisible characters: for names, and for values that need a decision. */
const INVISIBLE_CHARACTERS =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff]|\udb40[\udc00-\udfff]/g;
/** The rest of a longer text is collapsed. */
const MAX_TEXT_LENGTH = 4_000;
/** Longer names are truncated. */
const MAX_NAME_LENGTH = 200;
/** Values up to this length are shown inline. */
const MAX_INLINE_LENGTH = 80;

/** The JSON escape sequences of a string. */
function escapeSequences(text) {
  return Array.from({ length: text.length }, (_, index) => text.charCodeAt(index))
    .map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`)
    .join("");
}

/** The text of a message. */
export function textView(value) {
  const text = (typeof value === "string" ? value : JSON.stringify(value) ?? "").replace(
    CONTROL_CHARACTERS,
    escapeSequences,
  );
  const paragraph = (part) => el("p", { class: "message-text", dir: "auto" }, part);
  if (text.length <= MAX_TEXT_LENGTH) return paragraph(text);
  const restLength = (text.length - MAX_TEXT_LENGTH).toLocaleString("en");
  const rest = () => paragraph(text.slice(MAX_TEXT_LENGTH));
  return [
    paragraph(`${text.slice(0, MAX_TEXT_LENGTH)}…`),
    collapsible(`${restLength} more characters`, rest, { class: "raw" }),
  ];
}

/** A name, truncated and with invisible characters escaped. */
export function displayName(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const truncated = text.length > MAX_NAME_LENGTH ? `${text.slice(0, MAX_NAME_LENGTH)}…` : text;
  return truncated.replace(INVISIBLE_CHARACTERS, escapeSequences);
}

/** A value as JSON with invisible characters escaped. */
export function escapedJson(value) {
  return (JSON.stringify(value) ?? "").replace(INVISIBLE_CHARACTERS, escapeSequences);
}

/** A value as JSON: inline if it is short, or else collapsed. */
export function valueView(title, value) {
  const text = escapedJson(value);
  if (text === "" || text === "{}") return null;
  if (text.length <= MAX_INLINE_LENGTH) return el("code", { class: "short" }, text);
  return collapsible(title, () => jsonView(text, title), { class: "raw" });
}

/** A value that needs a decision, as complete JSON that is not collapsed. */
export function fullJsonView(value, label) {
  const text = escapedJson(value);
  return text === "" || text === "{}" ? null : jsonView(text, label);
}

/** A time in the local time zone. */
export function timeView(ts) {
  const time = new Date(ts);
  if (Number.isNaN(time.getTime())) return el("span", { class: "timestamp" }, displayName(ts));
  const isToday = time.toDateString() === new Date().toDateString();
  const clock = time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const text = isToday ? clock : `${time.toLocaleDateString()} ${clock}`;
  const title = time.toLocaleString();
  return el("time", { class: "timestamp", datetime: time.toISOString(), title }, text);
}

/** A comma-separated list of names. */
export function displayNames(list) {
  return (Array.isArray(list) ? list : []).slice(0, 20).map(displayName).join(", ");
}
