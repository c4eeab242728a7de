// The "Try it" panel: edits, sends and cancels a request, and shows its response.
import { copyButton, el } from "./dom.js";
import { exampleOf } from "./example.js";
import { inputView } from "./input.js";
import { resolveRef, withLocalDefs } from "./model.js";
import { buildRequest, curlCommand } from "./request.js";
import { noResponseView, responseView } from "./response.js";
import { followStream } from "./stream.js";

/** The panel of an operation; `abort` aborts its running request. */
export function tryItPanel(model, operation, client) {
  const api = withLocalDefs(model.api, operation.input?.schema);
  const schema = resolveRef(api, operation.input?.schema);
  const draft = {
    method: "POST",
    format: "data",
    timeout: "",
    text: JSON.stringify(exampleOf(api, operation.input), null, 2),
    isInvalid: false,
  };
  const curl = el("pre", {
    class: "code curl",
    tabindex: 0,
    role: "region",
    "aria-label": "Command line",
  });
  const inputError = el("p", { class: "error-text", id: "input-error", role: "alert" });
  const responseContainer = el("div", { class: "responses" });
  const state = { abortController: null, lastEventId: null };

  const request = () => buildRequest(api, operation, draft);
  const refresh = () => {
    try {
      curl.textContent = curlCommand(request(), operation, client.requiresToken);
      inputError.textContent = draft.isInvalid ? "A field has an invalid value." : "";
    } catch (error) {
      inputError.textContent = error.message;
    }
    buttons.send.disabled = inputError.textContent !== "" || state.abortController !== null;
  };

  const buttons = buttonsOf(operation, {
    send: () => run(null),
    resume: () => run(state.lastEventId),
    stop: () => state.abortController?.abort(),
  });
  const run = async (lastEventId) => {
    if (state.abortController || inputError.textContent) return;
    const abortController = new AbortController();
    Object.assign(state, { abortController, lastEventId: null });
    buttons.show("running", refresh);
    const send = operation.kind === "subscription" ? subscribe : sendOnce;
    const { signal } = abortController;
    state.lastEventId = await send(responseContainer, request(), client, signal, lastEventId);
    state.abortController = null;
    buttons.show(state.lastEventId ? "stopped" : "idle", refresh);
  };

  const panel = el(
    "section",
    { class: "try", "aria-labelledby": "try-title" },
    el("h2", { id: "try-title" }, "Try it"),
    options(operation, draft, refresh),
    inputView(api, schema, draft, refresh),
    inputError,
    el(
      "div",
      { class: "block" },
      el(
        "div",
        { class: "bar" },
        "Command line",
        copyButton("the command line", () => curl.textContent),
      ),
      curl,
    ),
    buttons.view,
    responseContainer,
  );
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) buttons.send.click();
  });
  refresh();
  return { panel, abort: () => state.abortController?.abort() };
}

function buttonsOf({ kind }, { send, resume, stop }) {
  const isStream = kind === "subscription";
  const all = {
    send: el(
      "button",
      { type: "button", class: "primary", onclick: send },
      isStream ? "Subscribe" : "Send",
    ),
    resume: el("button", { type: "button", onclick: resume }, "Resume"),
    stop: el("button", { type: "button", onclick: stop }, isStream ? "Stop" : "Cancel"),
  };
  const show = (state, refresh) => {
    // The button that replaces a focused button gets the focus.
    const hadFocus = Object.values(all).includes(document.activeElement);
    all.send.hidden = state === "running";
    all.stop.hidden = state !== "running";
    all.resume.hidden = state !== "stopped";
    refresh();
    if (hadFocus) (state === "running" ? all.stop : all.send).focus();
  };
  all.stop.hidden = all.resume.hidden = true;
  return { ...all, show, view: el("div", { class: "buttons" }, all.send, all.stop, all.resume) };
}

function options(operation, draft, refresh) {
  const selectOf = (label, name, choices) => {
    const select = el(
      "select",
      { id: `try-${name}` },
      choices.map(([value, text]) => el("option", { value }, text)),
    );
    select.addEventListener("change", () => {
      draft[name] = select.value;
      refresh();
    });
    return el("div", { class: "option" }, el("label", { for: select.id }, label), select);
  };
  const timeout = el("input", {
    id: "try-timeout",
    type: "number",
    min: 0,
    step: "any",
    inputmode: "decimal",
    placeholder: "none",
  });
  timeout.addEventListener("input", () => {
    draft.timeout = timeout.value;
    refresh();
  });
  return el(
    "div",
    { class: "options" },
    selectOf("Method", "method", [["POST", "POST"], ...(operation.get ? [["GET", "GET"]] : [])]),
    selectOf("Response", "format", [
      ["data", "Data"],
      ["envelope", "Envelope"],
    ]),
    el("div", { class: "option" }, el("label", { for: timeout.id }, "Timeout (s)"), timeout),
  );
}

/** Sends a request and shows its response. */
async function sendOnce(container, request, client, signal) {
  container.replaceChildren(el("p", { class: "quiet", role: "status" }, "Waiting for the response…"));
  const start = performance.now();
  try {
    const response = await client.fetch(request, signal);
    const text = await response.text();
    const durationMs = Math.round(performance.now() - start);
    container.replaceChildren(responseView(response, text, durationMs));
  } catch (error) {
    const reason = signal.aborted
      ? `Canceled after ${Math.round(performance.now() - start)} ms.`
      : String(error.message);
    container.replaceChildren(noResponseView(reason));
  }
  return null;
}

function subscribe(container, request, client, signal, lastEventId) {
  const sendRequest = (lastEventId) => {
    const { headers } = request;
    const resumeHeaders = lastEventId ? { ...headers, "Last-Event-ID": lastEventId } : headers;
    return client.fetch({ ...request, headers: resumeHeaders }, signal);
  };
  return followStream(container, sendRequest, signal, lastEventId);
}
