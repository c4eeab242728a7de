// Descriptions: the little of Markdown that is read without harm, as elements made by hand. Links
// stay text, since whoever wrote them may want somebody to follow them.
import { el } from "./dom.js";

/** More is not read by anybody here, and would only be slow. */
const LONGEST = 20_000;

/** Paragraphs, lists, code. */
export function words(text) {
  const blocks = [];
  let lines = [];
  let fenced = null;
  const end = () => {
    if (lines.length) blocks.push(block(lines.join("\n")));
    lines = [];
  };
  for (const line of String(text ?? "")
    .slice(0, LONGEST)
    .split(/\r\n|\r|\n/)) {
    const isFence = line.trimStart().startsWith("```");
    if (isFence && fenced) {
      blocks.push(code(fenced));
      fenced = null;
    } else if (fenced) fenced.push(line);
    else if (isFence || line.trim() === "") {
      end();
      fenced = isFence ? [] : null;
    } else lines.push(line);
  }
  end();
  return fenced ? [...blocks, code(fenced)] : blocks;
}

function code(lines) {
  return el("pre", { class: "code", tabindex: 0 }, lines.join("\n"));
}

function block(text) {
  const lines = text.split("\n");
  if (lines.every((line) => /^\s*[-*] /.test(line))) {
    return el(
      "ul",
      null,
      lines.map((line) => el("li", null, inline(line.replace(/^\s*[-*] /, "")))),
    );
  }
  if (lines.length === 1 && /^#{1,6} /.test(text)) {
    return el("p", { class: "lead" }, inline(text.replace(/^#+ /, "")));
  }
  return el("p", null, inline(text));
}

/** `code` and **strong**. */
export function inline(text) {
  return String(text ?? "")
    .split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)
    .map((part) => {
      if (part.length > 2 && part.startsWith("`")) return el("code", null, part.slice(1, -1));
      if (part.length > 4 && part.startsWith("**")) return el("strong", null, part.slice(2, -2));
      return part;
    });
}
