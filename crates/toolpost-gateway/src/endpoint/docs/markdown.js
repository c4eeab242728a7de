// Descriptions: a safe subset of Markdown, rendered as elements. Links stay text, because their
// author is not trusted.
import { el } from "./dom.js";

/** Longer descriptions are truncated to keep rendering fast. */
const MAX_LENGTH = 20_000;

/** Paragraphs, lists and code blocks. */
export function markdown(text) {
  const blocks = [];
  let lines = [];
  let fencedLines = null;
  const endBlock = () => {
    if (lines.length) blocks.push(block(lines.join("\n")));
    lines = [];
  };
  for (const line of String(text ?? "")
    .slice(0, MAX_LENGTH)
    .split(/\r\n|\r|\n/)) {
    const isFence = line.trimStart().startsWith("```");
    if (isFence && fencedLines) {
      blocks.push(codeBlock(fencedLines));
      fencedLines = null;
    } else if (fencedLines) fencedLines.push(line);
    else if (isFence || line.trim() === "") {
      endBlock();
      fencedLines = isFence ? [] : null;
    } else lines.push(line);
  }
  endBlock();
  return fencedLines ? [...blocks, codeBlock(fencedLines)] : blocks;
}

function codeBlock(lines) {
  return el("pre", { class: "code", tabindex: 0 }, lines.join("\n"));
}

function block(text) {
  const lines = text.split("\n");
  if (lines.every((line) => /^\s*[-*] /.test(line))) {
    return el(
      "ul",
      null,
      lines.map((line) => el("li", null, inlineMarkdown(line.replace(/^\s*[-*] /, "")))),
    );
  }
  if (lines.length === 1 && /^#{1,6} /.test(text)) {
    return el("p", { class: "lead" }, inlineMarkdown(text.replace(/^#+ /, "")));
  }
  return el("p", null, inlineMarkdown(text));
}

/** `code` and **strong**. */
export function inlineMarkdown(text) {
  return String(text ?? "")
    .split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)
    .map((part) => {
      if (part.length > 2 && part.startsWith("`")) return el("code", null, part.slice(1, -1));
      if (part.length > 4 && part.startsWith("**")) return el("strong", null, part.slice(2, -2));
      return part;
    });
}
