// Descriptions: the little of Markdown that is read without harm, as elements made by hand. Links
// stay text, since whoever wrote them may want somebody to follow them.
import { el } from "./dom.js";

/** Paragraphs, lists, code. */
export function words(text) {
  const blocks = [];
  let rest = String(text ?? "").replaceAll("\r\n", "\n").slice(0, 20_000);
  while (rest.trim()) {
    const fence = /^\s*```[^\n]*\n([\s\S]*?)(?:\n```[^\n]*(?:\n|$)|$)/.exec(rest);
    if (fence) {
      blocks.push(el("pre", { class: "code", tabindex: 0 }, fence[1]));
      rest = rest.slice(fence[0].length);
      continue;
    }
    const end = rest.search(/\S[^\n]*\n\s*(?:\n|```)/);
    const length = end < 0 ? rest.length : end + rest.slice(end).indexOf("\n") + 1;
    blocks.push(block(rest.slice(0, length).trim()));
    rest = rest.slice(length);
  }
  return blocks;
}

function block(text) {
  const lines = text.split("\n");
  if (lines.every((line) => /^\s*[-*] /.test(line))) {
    return el("ul", null, lines.map((line) => el("li", null, inline(line.replace(/^\s*[-*] /, "")))));
  }
  if (lines.length === 1 && /^#{1,6} /.test(text)) {
    return el("p", { class: "lead" }, inline(text.replace(/^#+ /, "")));
  }
  return el("p", null, inline(text));
}

/** `code` and **strong**. */
export function inline(text) {
  return String(text ?? "").split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part) => {
    if (part.length > 2 && part.startsWith("`")) return el("code", null, part.slice(1, -1));
    if (part.length > 4 && part.startsWith("**")) return el("strong", null, part.slice(2, -2));
    return part;
  });
}
