// The page of one operation.
import { el, fold } from "./dom.js";
import { follow } from "./model.js";
import { schemaView } from "./schema.js";
import { tryIt } from "./tryit.js";
import { words } from "./words.js";

const KINDS = {
  query: "It reads; calling it again is safe.",
  mutation: "It changes something, and runs to its end once it has begun.",
  subscription: "It answers with a stream of events.",
};

/** The view of an operation; `leave` ends what it has under way. */
export function operationView(model, operation, session) {
  const trial = tryIt(model, operation, session);
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
    trial.panel,
  );
  return { view, leave: trial.leave };
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
    el("div", { class: "words" }, words(operation.description)),
    el(
      "p",
      { class: "address" },
      methods.map((method) => el("span", { class: "method" }, method)),
      el("code", null, operation.path),
    ),
    el("p", { class: "quiet" }, KINDS[operation.kind]),
  );
}

/** What the caller must have, all of it or one of it. */
function scopes({ extension: { accessControl } }) {
  const any = accessControl?.requiredScopesAny ?? [];
  return [...(accessControl?.requiredScopes ?? []), ...(any.length ? [any.join(" or ")] : [])];
}

function section(title, ...children) {
  const id = `section-${title.toLowerCase()}`;
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), children);
}

function input({ api }, { input }) {
  return section("Input", schemaView(api, input?.schema, "Nothing is asked for."));
}

function output({ api }, { output, kind }) {
  const intro =
    kind === "subscription" &&
    el(
      "p",
      { class: "quiet" },
      "Each event has this as its data; complete ends the stream, error says why it failed, and gap tells what was lost on the way.",
    );
  return section("Output", intro, schemaView(api, output, "Any JSON."));
}

function errors(model, { call, extension }) {
  const declared = extension.errorSchemas ?? [];
  const usual = Object.entries(call.responses ?? {}).filter(([status]) => !/^[23]/.test(status));
  if (!declared.length && !usual.length) return null;
  return section(
    "Errors",
    declared.length > 0 &&
      el(
        "ul",
        { class: "rows" },
        declared.map((error) => declaredView(model.api, error)),
      ),
    usual.length > 0 &&
      fold(
        declared.length ? "Every status" : `${usual.length} statuses`,
        () => statuses(model.api, usual),
        { class: "raw", open: !declared.length },
      ),
  );
}

function declaredView(api, { code, description, schema, httpStatus }) {
  const whole = follow(api, schema);
  const hasDetails = whole && typeof whole === "object" && Object.keys(whole).length > 0;
  return el(
    "li",
    null,
    el(
      "div",
      { class: "head" },
      el("span", { class: "pill bad" }, httpStatus ?? 502),
      el("code", { class: "name" }, code),
    ),
    description && el("div", { class: "words" }, words(description)),
    hasDetails && fold("Details", () => schemaView(api, schema, "Any JSON."), { class: "nested" }),
  );
}

function statuses(api, responses) {
  return el(
    "ul",
    { class: "rows statuses" },
    responses.map(([status, response]) => {
      const whole = follow(api, response);
      return el(
        "li",
        null,
        el("span", null, el("span", { class: "pill bad" }, status)),
        el("div", { class: "words" }, words(whole?.description)),
      );
    }),
  );
}
