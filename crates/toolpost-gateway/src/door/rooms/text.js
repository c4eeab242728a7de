// What others say, as text that cannot pretend to be something else.
import { el, fold } from "../docs/dom.js";
import { jsonView } from "../docs/json.js";

/** Controls, and what turns the direction of a text around. */
const TURNING = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
/** The same and whatever cannot be seen at all: for names, and for what somebody decides about. */
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff]|\udb40[\udc00-\udfff]/g;
/** More of a text stands behind a fold. */
const SHORT = 4_000;
/** More of a name is not read by anybody. */
const NAME = 200;
/** Arguments of so many characters stand in the line. */
const INLINE = 80;

function written(found) {
  return Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
    .map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`)
    .join("");
}

/** A text of somebody, for reading. */
export function said(value) {
  const text = (typeof value === "string" ? value : JSON.stringify(value) ?? "").replace(
    TURNING,
    written,
  );
  if (text.length <= SHORT) return el("p", { class: "said", dir: "auto" }, text);
  const rest = () => el("p", { class: "said", dir: "auto" }, text.slice(SHORT));
  return [
    el("p", { class: "said", dir: "auto" }, `${text.slice(0, SHORT)}…`),
    fold(`${(text.length - SHORT).toLocaleString("en")} more characters`, rest, { class: "raw" }),
  ];
}

/** A name of somebody or something, with everything that is in it. */
export function named(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const shown = text.length > NAME ? `${text.slice(0, NAME)}…` : text;
  return shown.replace(UNSEEN, written);
}

/** JSON with everything that is in it; what cannot be seen is written as JSON writes it. */
export function json(value) {
  return (JSON.stringify(value) ?? "").replace(UNSEEN, written);
}

/** A value that is short in the line, and one that is not behind a fold. */
export function value(title, it, label) {
  const text = json(it);
  if (text === "" || text === "{}") return null;
  if (text.length <= INLINE) return el("code", { class: "short" }, text);
  return fold(title, () => jsonView(text, label), { class: "raw" });
}

/** A value that somebody decides about: all of it, and open. */
export function whole(it, label) {
  const text = json(it);
  return text === "" || text === "{}" ? null : jsonView(text, label);
}

/** When it was, in the reader's own clock. */
export function when(ts) {
  const time = new Date(ts);
  if (Number.isNaN(time.getTime())) return el("span", { class: "when" }, named(ts));
  const isToday = time.toDateString() === new Date().toDateString();
  const clock = time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const words = isToday ? clock : `${time.toLocaleDateString()} ${clock}`;
  const title = time.toLocaleString();
  return el("time", { class: "when", datetime: time.toISOString(), title }, words);
}

/** A list of names, for a sentence. */
export function names(list) {
  return (Array.isArray(list) ? list : []).slice(0, 20).map(named).join(", ");
}
