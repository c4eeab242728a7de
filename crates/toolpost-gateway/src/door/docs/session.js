// The token, and requests that show it. It is kept in the memory of the page and nowhere else.
import { el } from "./dom.js";
import { BASE } from "./request.js";

/** Requests on behalf of whoever has the token. */
export function newSession() {
  let token = "";
  return {
    /** Whether the gateway wants to know who calls. */
    asksToken: document.querySelector("meta[name=toolpost-token]")?.content === "needed",
    hasToken: () => token !== "",
    setToken(value) {
      token = value.trim();
    },
    fetch({ method, url, headers, body }, signal) {
      const shown = token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
      return fetch(url, {
        method,
        headers: shown,
        body,
        signal,
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
      });
    },
    /** The document as this caller may see it, or an error with words for the reader. */
    async document() {
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const response = await fetch(new URL("openapi.json", BASE), {
        headers,
        credentials: "omit",
        cache: "no-cache",
      });
      if (response.ok) return response.json();
      const problem = await response.json().catch(() => null);
      const words = problem?.detail ?? response.statusText;
      throw Object.assign(new Error(`${response.status}: ${words}`), { status: response.status });
    },
  };
}

/** Asks for the token; `done` is told when there is one. */
export function tokenView(session, words, done) {
  const input = el("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    placeholder: "tpt_…",
    "aria-describedby": "token-words",
  });
  const form = el(
    "form",
    { class: "token" },
    el("h1", { tabindex: -1 }, "Who is calling?"),
    el(
      "p",
      { id: "token-words" },
      "This gateway shows each caller what that caller may use. The token stays in the memory of this page, and is gone when the page is closed or loaded again.",
    ),
    words && el("p", { class: "wrong", role: "alert" }, words),
    el("label", { for: "token" }, "Token"),
    el(
      "div",
      { class: "buttons" },
      input,
      el("button", { class: "primary", type: "submit" }, "Continue"),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    session.setToken(input.value);
    input.value = "";
    done();
  });
  return { form, input };
}
