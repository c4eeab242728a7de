// A subscription: shows its events as they arrive, until the stream ends or is stopped.
import { el } from "./dom.js";
import { indented } from "./json.js";
import {
  headersView,
  noResponseView,
  parseObject,
  problemView,
  responseView,
  statusLine,
} from "./response.js";
import { parseEvents } from "./sse.js";

/** Maximum number of events on the page; older ones are removed. */
const MAX_EVENTS = 500;
/** The delay before each attempt to resume an interrupted stream, in milliseconds. */
const RETRY_DELAYS_MS = [500, 2000, 5000];

/**
 * Shows a subscription in `container`. `sendRequest(lastEventId)` sends the request. Returns the id of
 * the last event if the stream can be resumed after `signal` was aborted, or else null.
 */
export async function followStream(container, sendRequest, signal, lastEventId) {
  const log = eventLog(container);
  if (lastEventId)
    log.note(`Resumed with Last-Event-ID ${lastEventId}: the stream continues after it.`);
  for (let failures = 0; ;) {
    try {
      const response = await sendRequest(lastEventId);
      if (response.status === 204) {
        log.note("The stream had already ended.");
        return null;
      }
      const isStream = /^text\/event-stream/.test(response.headers.get("content-type") ?? "");
      if (!response.ok || !isStream) {
        container.replaceChildren(responseView(response, await response.text(), 0));
        return null;
      }
      log.showHead(response);
      for await (const event of parseEvents(response.body)) {
        failures = 0;
        lastEventId = event.id || lastEventId;
        log.add(event);
        if (event.type === "complete" || event.type === "error") return null;
      }
    } catch (error) {
      if (signal.aborted) {
        log.note(
          lastEventId
            ? `Stopped. The stream can be resumed after ${lastEventId} for 30 seconds.`
            : "Stopped.",
        );
        return lastEventId;
      }
      if (!lastEventId) {
        container.replaceChildren(noResponseView(String(error.message)));
        return null;
      }
    }
    if (failures === RETRY_DELAYS_MS.length) {
      log.note("Connection lost; reconnecting failed.");
      return lastEventId;
    }
    log.note(`Connection lost; resuming with Last-Event-ID ${lastEventId}.`);
    await delay(RETRY_DELAYS_MS[failures], signal);
    failures += 1;
  }
}

function delay(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function eventLog(container) {
  const head = el("div");
  const countText = el("span", { class: "quiet" }, "");
  const list = el("ol");
  const scrollBox = el(
    "div",
    { class: "events", tabindex: 0, role: "log", "aria-label": "Events" },
    list,
  );
  let count = 0;
  container.replaceChildren(head, scrollBox);
  const append = (row) => {
    const isAtEnd = scrollBox.scrollHeight - scrollBox.scrollTop - scrollBox.clientHeight < 40;
    list.append(row);
    if (list.childElementCount > MAX_EVENTS) list.firstElementChild.remove();
    if (isAtEnd) scrollBox.scrollTop = scrollBox.scrollHeight;
  };
  return {
    showHead(response) {
      head.replaceChildren(statusLine(response, countText), headersView(response));
    },
    add(event) {
      count += event.type === "message" ? 1 : 0;
      countText.textContent = `${count} ${count === 1 ? "event" : "events"}`;
      append(eventView(event));
    },
    note: (text) => append(el("li", { class: "note" }, text)),
  };
}

function eventView({ type, id, data }) {
  const controlView = controlEventView(type, parseObject(data));
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
    controlView ??
      el("pre", null, data.length < 100 || data.length > 10_000 ? data : indented(data)),
  );
}

/** The view of an event about the stream itself, or null for a data event. */
function controlEventView(type, data) {
  if (type === "complete") return el("p", null, "The stream has ended.");
  if (type === "error") return problemView(data ?? {});
  if (type !== "gap") return null;
  return el(
    "p",
    null,
    data?.isNew
      ? "The stream no longer exists; a new one was started."
      : `${data?.lost} events were missed.`,
  );
}
