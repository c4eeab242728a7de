// JSON for the eye: indented, colored, every number as it was written. It is read as text, since a
// parser would round what does not fit its numbers.
import { el } from "./dom.js";

/** Beyond so many characters there are no colors, and beyond so many no more text. */
const COLORED = 200_000;
const SHOWN = 2_000_000;
/** Beyond so many levels it is not indented. */
const DEEPEST = 200;

const TOKEN =
  /("(?:[^"\\]+|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],])|(\s+)|([^])/gy;

/** An element with the text, indented if it is JSON. */
export function jsonView(text, label) {
  const cut = text.length > SHOWN;
  const pieces = cut ? null : tokens(text);
  const view = el("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label });
  if (!pieces) {
    view.append(text.slice(0, SHOWN));
    if (cut)
      view.append(
        `\n… the first ${SHOWN.toLocaleString("en")} of ${text.length.toLocaleString("en")} characters`,
      );
  } else if (text.length > COLORED) {
    view.append(pieces.map((piece) => piece.text).join(""));
  } else {
    view.append(
      ...pieces.map(({ kind, text }) => (kind ? el("span", { class: kind }, text) : text)),
    );
  }
  return view;
}

/** The same text, indented; what is no JSON stays as it is. */
export function indented(text) {
  return (
    tokens(text)
      ?.map((piece) => piece.text)
      .join("") ?? text
  );
}

function tokens(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const pieces = [];
  let depth = 0;
  let open = false;
  const line = () => "\n" + "  ".repeat(depth);
  for (const [token, string, colon, number, word, mark] of text.matchAll(TOKEN)) {
    if (mark === "}" || mark === "]") {
      depth -= 1;
      pieces.push({ text: open ? mark : line() + mark });
      open = false;
      continue;
    }
    const value = string ?? number ?? word;
    if (value === undefined && mark === undefined) continue;
    if (open) pieces.push({ text: line() });
    open = false;
    if (mark === ",") pieces.push({ text: mark + line() });
    else if (mark) {
      pieces.push({ text: mark });
      depth += 1;
      if (depth > DEEPEST) return null;
      open = true;
    } else if (colon) pieces.push({ kind: "key", text: string }, { text: ": " });
    else pieces.push({ kind: string ? "string" : number ? "number" : "word", text: token });
  }
  return pieces;
}

/** Parses JSON; where the browser can, numbers keep every digit until they are written again. */
export function exact(text) {
  const keep = (_, value, context) =>
    typeof value === "number" && context?.source && JSON.rawJSON
      ? JSON.rawJSON(context.source)
      : value;
  return JSON.parse(text, keep);
}
