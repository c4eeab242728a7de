// The page of one operation.
import { collapsible, el } from "./dom.js";
import { markdown } from "./markdown.js";
import { resolveRef } from "./model.js";
import { schemaView } from "./schema.js";
import { tryItPanel } from "./tryit.js";

const KINDS = {
  query: "Read-only; safe to call again.",
  mutation: "Changes state; runs to completion once started.",
  subscription: "Returns a stream of events.",
};

/** The view of an operation; `abort` aborts its running call. */
export function operationView(model, operation, client) {
  const { panel, abort } = tryItPanel(model, operation, client);
  const view = el(
    "article",
    { class: "operation", "aria-labelledby": "operation-title" },
    el(
      "div",
      { class: "reference" },
      header(operation),
      input(model, operation),
      output(model, operation),
      errors(model, operation),
    ),
    panel,
  );
  return { view, abort };
}

function header(operation) {
  const methods = operation.get ? ["POST", "GET"] : ["POST"];
  return el(
    "header",
    null,
    el("p", { class: "crumb" }, operation.namespace),
    el("h1", { id: "operation-title", tabindex: -1 }, operation.title || operation.name),
    el(
      "p",
      { class: "line" },
      el("span", { class: `kind ${operation.kind}`, title: KINDS[operation.kind] }, operation.kind),
      el("code", { class: "id" }, operation.id),
      operation.version && el("span", { class: "quiet" }, operation.version),
      operation.deprecated && el("span", { class: "limit" }, "deprecated"),
      scopes(operation).map((scope) => el("span", { class: "limit" }, `scope ${scope}`)),
      operation.tags.map((tag) => el("span", { class: "tag" }, tag)),
    ),
    el("div", { class: "markdown" }, markdown(operation.description)),
    el(
      "p",
      { class: "address" },
      methods.map((method) => el("span", { class: "method" }, method)),
      el("code", null, operation.path),
    ),
    el("p", { class: "quiet" }, KINDS[operation.kind]),
  );
}

/** The scopes that the caller must have: all of them, and one of each alternative. */
function scopes({ extension: { accessControl } }) {
  const any = accessControl?.requiredScopesAny ?? [];
  return [...(accessControl?.requiredScopes ?? []), ...(any.length ? [any.join(" or ")] : [])];
}

function section(title, ...children) {
  const id = `section-${title.toLowerCase()}`;
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), children);
}

function input({ api }, { input }) {
  return section("Input", schemaView(api, input?.schema, "No input."));
}

function output({ api }, { output, kind }) {
  const intro =
    kind === "subscription" &&
    el(
      "p",
      { class: "quiet" },
      "Each event carries this as its data; complete ends the stream, error reports a failure, gap reports missed events.",
    );
  return section("Output", intro, schemaView(api, output, "Any JSON."));
}

function errors(model, { call, extension }) {
  const declared = extension.errorSchemas ?? [];
  const responses = Object.entries(call.responses ?? {}).filter(([status]) => !/^[23]/.test(status));
  if (!declared.length && !responses.length) return null;
  return section(
    "Errors",
    declared.length > 0 &&
      el(
        "ul",
        { class: "rows" },
        declared.map((error) => declaredView(model.api, error)),
      ),
    responses.length > 0 &&
      collapsible(
        declared.length ? "All statuses" : `${responses.length} statuses`,
        () => statuses(model.api, responses),
        { class: "raw", open: !declared.length },
      ),
  );
}

function declaredView(api, { code, description, schema, httpStatus }) {
  const resolved = resolveRef(api, schema);
  const hasDetails =
    resolved && typeof resolved === "object" && Object.keys(resolved).length > 0;
  return el(
    "li",
    null,
    el(
      "div",
      { class: "head" },
      el("span", { class: "pill bad" }, httpStatus ?? 502),
      el("code", { class: "name" }, code),
    ),
    description && el("div", { class: "markdown" }, markdown(description)),
    hasDetails &&
      collapsible("Details", () => schemaView(api, schema, "Any JSON."), { class: "nested" }),
  );
}

function statuses(api, responses) {
  return el(
    "ul",
    { class: "rows statuses" },
    responses.map(([status, response]) => {
      const resolved = resolveRef(api, response);
      return el(
        "li",
        null,
        el("span", null, el("span", { class: "pill bad" }, status)),
        el("div", { class: "markdown" }, markdown(resolved?.description)),
      );
    }),
  );
}
