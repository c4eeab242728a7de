// Shows JSON indented and colored, with every number as it was written. The text is tokenized, because
// a parser would round large numbers.
import { el } from "./dom.js";

/** Longer texts are not colored. */
const MAX_COLORED_LENGTH = 200_000;
/** Longer texts are truncated. */
const MAX_LENGTH = 2_000_000;
/** Deeper JSON is not indented. */
const MAX_DEPTH = 200;

const TOKEN =
  /("(?:[^"\\]+|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],])|(\s+)|([^])/gy;

/** An element with the text, indented if it is JSON. */
export function jsonView(text, label) {
  const isTruncated = text.length > MAX_LENGTH;
  const tokens = isTruncated ? null : tokenize(text);
  const view = el("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label });
  if (!tokens) {
    view.append(text.slice(0, MAX_LENGTH));
    if (isTruncated)
      view.append(
        `\n… the first ${MAX_LENGTH.toLocaleString("en")} of ${text.length.toLocaleString("en")} characters`,
      );
  } else if (text.length > MAX_COLORED_LENGTH) {
    view.append(tokens.map((token) => token.text).join(""));
  } else {
    view.append(
      ...tokens.map(({ kind, text }) => (kind ? el("span", { class: kind }, text) : text)),
    );
  }
  return view;
}

/** The text, indented if it is JSON. */
export function indented(text) {
  return (
    tokenize(text)
      ?.map((token) => token.text)
      .join("") ?? text
  );
}

function tokenize(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = [];
  let depth = 0;
  let isAfterOpening = false;
  const newLine = () => "\n" + "  ".repeat(depth);
  for (const [token, string, colon, number, literal, mark] of text.matchAll(TOKEN)) {
    if (mark === "}" || mark === "]") {
      depth -= 1;
      tokens.push({ text: isAfterOpening ? mark : newLine() + mark });
      isAfterOpening = false;
      continue;
    }
    const value = string ?? number ?? literal;
    if (value === undefined && mark === undefined) continue;
    if (isAfterOpening) tokens.push({ text: newLine() });
    isAfterOpening = false;
    if (mark === ",") tokens.push({ text: mark + newLine() });
    else if (mark) {
      tokens.push({ text: mark });
      depth += 1;
      if (depth > MAX_DEPTH) return null;
      isAfterOpening = true;
    } else if (colon) tokens.push({ kind: "key", text: string }, { text: ": " });
    else tokens.push({ kind: string ? "string" : number ? "number" : "literal", text: token });
  }
  return tokens;
}

/** Parses JSON; if the browser supports `JSON.rawJSON`, numbers keep every digit when serialized. */
export function parseExact(text) {
  const preserveNumber = (_, value, context) =>
    typeof value === "number" && context?.source && JSON.rawJSON
      ? JSON.rawJSON(context.source)
      : value;
  return JSON.parse(text, preserveNumber);
}
