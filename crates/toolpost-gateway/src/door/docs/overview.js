// The page before an operation is chosen.
import { el } from "./dom.js";
import { byNamespace } from "./model.js";
import { words } from "./words.js";

export function overview(model) {
  const spaces = byNamespace(model.operations);
  return el(
    "article",
    { class: "overview" },
    el("h1", { tabindex: -1 }, model.title),
    el("div", { class: "words" }, words(model.description)),
    el(
      "p",
      { class: "quiet" },
      count(model.operations.length, "operation"),
      " in ",
      count(spaces.length, "namespace"),
      ". Press ",
      el("kbd", null, "/"),
      " to search.",
    ),
    el(
      "ul",
      { class: "cards" },
      spaces.map(([namespace, operations]) => card(namespace, operations)),
    ),
  );
}

function card(namespace, operations) {
  const first = operations[0];
  const kinds = ["query", "mutation", "subscription"].map((kind) => [
    kind,
    operations.filter((operation) => operation.kind === kind).length,
  ]);
  return el(
    "li",
    null,
    el(
      "a",
      { href: `#${encodeURIComponent(first.id)}` },
      el("strong", null, namespace),
      el("span", { class: "quiet" }, count(operations.length, "operation")),
      el(
        "span",
        { class: "line" },
        kinds
          .filter(([, number]) => number)
          .map(([kind, number]) => el("span", { class: `kind ${kind}` }, count(number, kind))),
      ),
    ),
  );
}

function count(number, one) {
  const many = one === "query" ? "queries" : `${one}s`;
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
