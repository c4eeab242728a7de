// Try it: a request that is typed, sent, canceled, and answered on the spot.
import { copyButton, el } from "./dom.js";
import { answerView, noAnswer } from "./answer.js";
import { exampleOf } from "./example.js";
import { inputView } from "./input.js";
import { around, follow } from "./model.js";
import { build, curl } from "./request.js";
import { followStream } from "./stream.js";

/** The panel of an operation. `session` holds the token, if there is one. */
export function tryIt(model, operation, session) {
  const api = around(model.api, operation.input?.schema);
  const schema = follow(api, operation.input?.schema);
  const draft = {
    method: "POST",
    form: "data",
    timeout: "",
    text: JSON.stringify(exampleOf(api, operation.input), null, 2),
    isWrong: false,
  };
  const line = el("pre", {
    class: "code curl",
    tabindex: 0,
    role: "region",
    "aria-label": "Command line",
  });
  const wrong = el("p", { class: "wrong", id: "input-wrong", role: "alert" });
  const answer = el("div", { class: "answers" });
  const state = { running: null, last: null };

  const request = () => build(api, operation, draft);
  const refresh = () => {
    try {
      line.textContent = curl(request(), operation, session.asksToken);
      wrong.textContent = draft.isWrong ? "A field is not what it should be." : "";
    } catch (error) {
      wrong.textContent = error.message;
    }
    buttons.send.disabled = wrong.textContent !== "" || state.running !== null;
  };

  const buttons = buttonsOf(operation, {
    send: () => run(null),
    resume: () => run(state.last),
    stop: () => state.running?.abort(),
  });
  const run = async (last) => {
    if (state.running || wrong.textContent) return;
    const running = new AbortController();
    Object.assign(state, { running, last: null });
    buttons.show("running", refresh);
    const send = operation.kind === "subscription" ? stream : once;
    state.last = await send(answer, request(), session, running.signal, last);
    state.running = null;
    buttons.show(state.last ? "stopped" : "idle", refresh);
  };

  const panel = el(
    "section",
    { class: "try", "aria-labelledby": "try-title" },
    el("h2", { id: "try-title" }, "Try it"),
    options(operation, draft, refresh),
    inputView(api, schema, draft, refresh),
    wrong,
    el(
      "div",
      { class: "block" },
      el(
        "div",
        { class: "bar" },
        "Command line",
        copyButton("the command line", () => line.textContent),
      ),
      line,
    ),
    buttons.view,
    answer,
  );
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) buttons.send.click();
  });
  refresh();
  return { panel, leave: () => state.running?.abort() };
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
  const show = (what, refresh) => {
    // A button that goes away gives its focus to the one that comes.
    const hadFocus = Object.values(all).includes(document.activeElement);
    all.send.hidden = what === "running";
    all.stop.hidden = what !== "running";
    all.resume.hidden = what !== "stopped";
    refresh();
    if (hadFocus) (what === "running" ? all.stop : all.send).focus();
  };
  all.stop.hidden = all.resume.hidden = true;
  return { ...all, show, view: el("div", { class: "buttons" }, all.send, all.stop, all.resume) };
}

function options(operation, draft, refresh) {
  const choose = (label, name, choices) => {
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
    choose("Method", "method", [["POST", "POST"], ...(operation.get ? [["GET", "GET"]] : [])]),
    choose("Answer", "form", [
      ["data", "Data"],
      ["envelope", "Envelope"],
    ]),
    el("div", { class: "option" }, el("label", { for: timeout.id }, "Timeout, s"), timeout),
  );
}

/** One request, one answer. */
async function once(place, request, session, signal) {
  place.replaceChildren(el("p", { class: "quiet", role: "status" }, "Waiting for the answer…"));
  const began = performance.now();
  try {
    const response = await session.fetch(request, signal);
    const text = await response.text();
    place.replaceChildren(answerView(response, text, Math.round(performance.now() - began)));
  } catch (error) {
    const words = signal.aborted
      ? `Canceled after ${Math.round(performance.now() - began)} ms.`
      : String(error.message);
    place.replaceChildren(noAnswer(words));
  }
  return null;
}

function stream(place, request, session, signal, last) {
  const ask = (last) => {
    const headers = last ? { ...request.headers, "Last-Event-ID": last } : request.headers;
    return session.fetch({ ...request, headers }, signal);
  };
  return followStream(place, ask, signal, last);
}
