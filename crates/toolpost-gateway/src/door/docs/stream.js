// A subscription: its events as they come, until they end or somebody stops them.
import { el } from "./dom.js";
import { answerView, headersView, noAnswer, parsed, problemView, statusLine } from "./answer.js";
import { events } from "./events.js";
import { indented } from "./json.js";

/** The events that stay on the page; older ones make room. */
const SHOWN = 500;
/** How long to wait before each return to a stream that was cut off, in milliseconds. */
const RETURNS = [500, 2000, 5000];

/**
 * Follows a subscription into `place`. `ask(lastEventId)` makes the request. Whoever aborts `signal`
 * may go on later: the result is the id of the last event, or null where there is no more.
 */
export async function followStream(place, ask, signal, last) {
  const log = logView(place);
  if (last) log.note(`Returned with Last-Event-ID ${last}: the stream goes on behind it.`);
  for (let failures = 0; ;) {
    try {
      const response = await ask(last);
      if (response.status === 204) {
        log.note("The stream had ended with that event.");
        return null;
      }
      const isStream = /^text\/event-stream/.test(response.headers.get("content-type") ?? "");
      if (!response.ok || !isStream) {
        place.replaceChildren(answerView(response, await response.text(), 0));
        return null;
      }
      log.began(response);
      for await (const event of events(response.body)) {
        failures = 0;
        last = event.id || last;
        log.add(event);
        if (event.type === "complete" || event.type === "error") return null;
      }
    } catch (error) {
      if (signal.aborted) {
        log.note(
          last ? `Stopped. For a while the stream can be taken up behind ${last}.` : "Stopped.",
        );
        return last;
      }
      if (!last) {
        place.replaceChildren(noAnswer(String(error.message)));
        return null;
      }
    }
    if (failures === RETURNS.length) {
      log.note("The connection was lost, and so were the attempts to return.");
      return last;
    }
    log.note(`The connection was lost; returning with Last-Event-ID ${last}.`);
    await pause(RETURNS[failures], signal);
    failures += 1;
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function logView(place) {
  const head = el("div");
  const count = el("span", { class: "quiet" }, "");
  const list = el("ol");
  const box = el(
    "div",
    { class: "events", tabindex: 0, role: "log", "aria-label": "Events" },
    list,
  );
  let seen = 0;
  place.replaceChildren(head, box);
  const push = (row) => {
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    list.append(row);
    if (list.childElementCount > SHOWN) list.firstElementChild.remove();
    if (isAtEnd) box.scrollTop = box.scrollHeight;
  };
  return {
    began(response) {
      head.replaceChildren(statusLine(response, count), headersView(response));
    },
    add(event) {
      seen += event.type === "message" ? 1 : 0;
      count.textContent = `${seen} ${seen === 1 ? "event" : "events"}`;
      push(eventView(event));
    },
    note: (words) => push(el("li", { class: "note" }, words)),
  };
}

function eventView({ type, id, data }) {
  const words = meaning(type, parsed(data));
  const number = id.split("-").at(-1);
  return el(
    "li",
    { class: `event ${type === "message" ? "" : type}` },
    el(
      "div",
      { class: "head" },
      el("span", { class: "name" }, type === "message" ? "" : type),
      el("span", { class: "quiet", title: id ? `id: ${id}` : null }, number && `#${number}`),
    ),
    words ?? el("pre", null, data.length < 100 || data.length > 10_000 ? data : indented(data)),
  );
}

/** The events that are about the stream. */
function meaning(type, data) {
  if (type === "complete") return el("p", null, "The stream has ended.");
  if (type === "error") return problemView(data ?? {});
  if (type !== "gap") return null;
  return el(
    "p",
    null,
    data?.isNew
      ? "That stream is not there any more; this is another one."
      : `${data?.lost} events were lost meanwhile.`,
  );
}
