// Views of an HTTP response.
import { collapsible, copyButton, el } from "./dom.js";
import { indented, jsonView } from "./json.js";

/** A complete response: its status, duration, headers and body. */
export function responseView(response, text, durationMs) {
  const contentType = response.headers.get("content-type") ?? "";
  const isJson = /[/+]json\b/.test(contentType);
  const problem = response.ok || !isJson ? null : parseObject(text);
  return el(
    "div",
    { class: "response-view" },
    statusLine(response, `${durationMs} ms`, sizeText(text)),
    problem && problemView(problem),
    headersView(response),
    text &&
      el(
        "div",
        { class: "block" },
        el(
          "div",
          { class: "bar" },
          contentType,
          copyButton("the response", () => indented(text)),
        ),
        jsonView(text, "Response body"),
      ),
  );
}

/** The status line; screen readers announce it. */
export function statusLine(response, ...details) {
  const tone = response.ok ? "good" : "bad";
  const status = `${response.status} ${response.statusText}`.trim();
  return el(
    "p",
    { class: "status", role: "status" },
    el("span", { class: `pill ${tone}` }, status),
    details.map((detail) => el("span", { class: "quiet" }, detail)),
  );
}

/** The code, message and validation errors of a problem. */
export function problemView({ detail, error }) {
  const errors = Array.isArray(error?.details) ? error.details.filter((one) => one?.message) : [];
  return el(
    "div",
    { class: "problem" },
    el("p", null, error?.code && el("code", null, error.code), " ", detail ?? error?.message ?? ""),
    errors.length > 0 &&
      el(
        "ul",
        null,
        errors
          .slice(0, 20)
          .map(({ path, message }) => el("li", null, el("code", null, path || "/"), " ", message)),
      ),
    error?.retryable && el("p", { class: "quiet" }, "The call can be retried."),
  );
}

export function headersView(response) {
  const rows = () =>
    el(
      "dl",
      { class: "headers" },
      [...response.headers].map(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
    );
  return collapsible("Headers", rows, { class: "raw" });
}

/** The reason why there is no response. */
export function noResponseView(reason) {
  return el(
    "p",
    { class: "status", role: "status" },
    el("span", { class: "pill bad" }, "No response"),
    el("span", { class: "quiet" }, reason),
  );
}

/** The JSON object or array in a string, or null. */
export function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function sizeText(text) {
  const bytes = new TextEncoder().encode(text).length;
  return bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} KiB`;
}
