// The access token and the requests that send it. The token is kept in memory only.
import { el } from "./dom.js";
import { BASE } from "./request.js";

/** A client that sends the token, if there is one, with each request. */
export function newApiClient() {
  let token = "";
  return {
    /** Whether the gateway requires a token. */
    requiresToken: document.querySelector("meta[name=toolpost-token]")?.content === "needed",
    hasToken: () => token !== "",
    setToken(value) {
      token = value.trim();
    },
    fetch({ method, url, headers, body }, signal) {
      return fetch(url, {
        method,
        headers: token ? { ...headers, Authorization: `Bearer ${token}` } : headers,
        body,
        signal,
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
      });
    },
    /** The OpenAPI document for this caller; throws an error with the HTTP status. */
    async fetchDocument() {
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const response = await fetch(new URL("openapi.json", BASE), {
        headers,
        credentials: "omit",
        cache: "no-cache",
      });
      if (response.ok) return response.json();
      const problem = await response.json().catch(() => null);
      const detail = problem?.detail ?? response.statusText;
      throw Object.assign(new Error(`${response.status}: ${detail}`), { status: response.status });
    },
  };
}

/** The form for the token; `onSubmit` is called after the token was set. */
export function tokenForm(client, errorMessage, onSubmit) {
  const input = el("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    placeholder: "tpt_…",
    "aria-describedby": "token-description",
  });
  const form = el(
    "form",
    { class: "token" },
    el("h1", { tabindex: -1 }, "Access token"),
    el(
      "p",
      { id: "token-description" },
      "Callers see only the operations they can access. The token is kept in memory only and is lost when the page is closed or reloaded.",
    ),
    errorMessage && el("p", { class: "error-text", role: "alert" }, errorMessage),
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
    client.setToken(input.value);
    input.value = "";
    onSubmit();
  });
  return { form, input };
}
