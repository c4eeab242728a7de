// The overview page, shown while no operation is selected.
import { el } from "./dom.js";
import { markdown } from "./markdown.js";
import { byNamespace } from "./model.js";

export function overview(model) {
  const namespaces = byNamespace(model.operations);
  return el(
    "article",
    { class: "overview" },
    el("h1", { tabindex: -1 }, model.title),
    el("div", { class: "markdown" }, markdown(model.description)),
    el(
      "p",
      { class: "quiet" },
      count(model.operations.length, "operation"),
      " in ",
      count(namespaces.length, "namespace"),
      ". Press ",
      el("kbd", null, "/"),
      " to search.",
    ),
    el(
      "ul",
      { class: "cards" },
      namespaces.map(([namespace, operations]) => card(namespace, operations)),
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

function count(number, singular) {
  const plural = singular === "query" ? "queries" : `${singular}s`;
  return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
}
