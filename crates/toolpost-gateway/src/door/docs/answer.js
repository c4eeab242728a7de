// What came back.
import { copyButton, el, fold } from "./dom.js";
import { indented, jsonView } from "./json.js";

/** An answer that is whole: its status, how long it took, its headers and its body. */
export function answerView(response, text, took) {
  const type = response.headers.get("content-type") ?? "";
  const isJson = /[/+]json\b/.test(type);
  const problem = response.ok || !isJson ? null : parsed(text);
  return el(
    "div",
    { class: "answer" },
    statusLine(response, `${took} ms`, size(text)),
    problem && problemView(problem),
    headersView(response),
    text &&
      el(
        "div",
        { class: "block" },
        el(
          "div",
          { class: "bar" },
          type,
          copyButton("the answer", () => indented(text)),
        ),
        jsonView(text, "Body of the answer"),
      ),
  );
}

/** The line on top, which is told to whoever does not see it. */
export function statusLine(response, ...rest) {
  const tone = response.ok ? "good" : "bad";
  const words = `${response.status} ${response.statusText}`.trim();
  return el(
    "p",
    { class: "status", role: "status" },
    el("span", { class: `pill ${tone}` }, words),
    rest.map((word) => el("span", { class: "quiet" }, word)),
  );
}

/** The words of a problem before its text. */
export function problemView({ detail, error }) {
  const lines = Array.isArray(error?.details) ? error.details.filter((line) => line?.message) : [];
  return el(
    "div",
    { class: "problem" },
    el("p", null, error?.code && el("code", null, error.code), " ", detail ?? error?.message ?? ""),
    lines.length > 0 &&
      el(
        "ul",
        null,
        lines
          .slice(0, 20)
          .map(({ path, message }) => el("li", null, el("code", null, path || "/"), " ", message)),
      ),
    error?.retryable && el("p", { class: "quiet" }, "It may help to try again."),
  );
}

export function headersView(response) {
  const rows = () =>
    el(
      "dl",
      { class: "headers" },
      [...response.headers].map(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
    );
  return fold("Headers", rows, { class: "raw" });
}

/** What kept an answer from coming, in words. */
export function noAnswer(words) {
  return el(
    "p",
    { class: "status", role: "status" },
    el("span", { class: "pill bad" }, "No answer"),
    el("span", { class: "quiet" }, words),
  );
}

export function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function size(text) {
  const bytes = new TextEncoder().encode(text).length;
  return bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} KiB`;
}
