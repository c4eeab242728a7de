// A room: its messages, its participants, and the forms that send messages.
import { el } from "../docs/dom.js";
import { parseExact } from "../docs/json.js";
import { newApprovals } from "./approvals.js";
import { newCallForm } from "./call_form.js";
import { newChatForm } from "./chat_form.js";
import { newConnection } from "./connection.js";
import { loadMissed, newShownMessages } from "./history.js";
import { newLog } from "./log.js";
import { errorRow, messageRow, noteRow } from "./message.js";
import { newId, newPendingRequests } from "./pending_requests.js";
import { newProposals } from "./proposals.js";
import { displayName } from "./text.js";

/**
 * Joins a room. `onJoined` gets the id of this participant; `onClosed` is called when the connection
 * is closed and not reopened: `{code, reason, hasJoined}`.
 */
export function openRoom(name, caller, participants, onJoined, onClosed) {
  let self = { id: "", capabilities: [] };
  let hasJoined = false;
  const shown = newShownMessages();
  const pending = newPendingRequests();
  const streams = new Map();
  const log = newLog();
  const status = el("p", { class: "connection", role: "status" });
  const pendingButton = el("button", { type: "button", class: "pending", hidden: true });
  const note = (text) => log.add(noteRow(text));
  const room = { self: () => self, send, note };
  const proposals = newProposals(room, () => {
    const count = proposals.open().length;
    pendingButton.hidden = count === 0;
    pendingButton.textContent = count === 1 ? "1 pending proposal" : `${count} pending proposals`;
  });
  const chatForm = newChatForm(room);
  const callForm = newCallForm(room, caller);
  const hasCard = (entry) => entry.room === name && proposals.has(entry.requestId);
  const approvals = newApprovals(caller, hasCard, () => self.id);
  pendingButton.addEventListener("click", () => {
    const [first] = proposals.open();
    first?.card.view.scrollIntoView({ block: "center" });
    first?.card.focus();
  });
  const title = el("h1", { tabindex: -1 }, displayName(name));
  const view = el(
    "div",
    { class: "room disconnected" },
    el("div", { class: "room-head" }, title, pendingButton, status),
    approvals.view,
    log.view,
    el("div", { class: "footer" }, chatForm.view, callForm.view),
  );
  const connection = newConnection(name, caller, handleFrame, showState);

  /**
   * Sends a message and returns whether it was sent. `onError` gets the error message if the gateway
   * rejects it.
   */
  function send(kind, fields, onError) {
    const id = newId();
    const message = { protocol: "mew/v0.4", id, kind, ...fields };
    if (!message.to?.length) delete message.to;
    if (!hasJoined || !connection.send(JSON.stringify(message))) return false;
    if (onError) pending.add(id, onError);
    return true;
  }

  async function handleFrame(text) {
    if (text.startsWith("#")) return countStreamFrame(text);
    const message = parseOrNull(text);
    if (typeof message?.kind !== "string") return;
    switch (message.kind) {
      case "system/welcome":
        return handleWelcome(message.payload ?? {});
      case "system/presence":
        return handlePresence(message.payload ?? {});
      case "system/error":
        return handleError(message);
      case "system/proposal":
        return;
      default:
        showMessage(message);
    }
  }

  async function handleWelcome({ you, participants: others, history }) {
    const isFirst = !hasJoined;
    const isReconnect = !isFirst && Array.isArray(history);
    self = you ?? self;
    hasJoined = true;
    participants.load(self, others);
    connection.resetFailures();
    chatForm.refresh();
    callForm.refresh();
    proposals.refresh();
    showState({ state: "joined" });
    onJoined(self.id);
    if (isFirst) approvals.start();
    if (Array.isArray(history)) await showHistory(history);
    if (!isFirst && !isReconnect) log.add(noteRow("Your capabilities have changed."));
  }

  /** Shows earlier messages, including those that were missed while disconnected. */
  async function showHistory(history) {
    const { missed, isComplete } = await loadMissed(name, caller, shown, history);
    if (!isComplete) log.add(noteRow("Some earlier messages are not shown."));
    log.withoutAnnouncements(() => [...missed, ...history].forEach(showMessage));
  }

  function showMessage(message) {
    if (typeof message?.kind !== "string" || shown.has(message)) return;
    shown.add(message);
    if (message.kind === "mcp/proposal") return log.add(proposals.add(message));
    proposals.update(message);
    log.add(messageRow(message));
  }

  function handleError(message) {
    const text = displayName(message.payload?.message ?? message.payload?.error ?? "rejected");
    pending.reject(message, text);
    log.add(errorRow(message));
  }

  function handlePresence({ event, participant }) {
    const verb = { join: "joined", leave: "left" }[event];
    if (event === "join") participants.add(participant);
    if (event === "leave") participants.remove(participant);
    if (verb) log.add(noteRow(`${displayName(participant?.id)} ${verb}.`));
  }

  /** The frames of a stream are counted, in one row for each stream. */
  function countStreamFrame(text) {
    const id = text.slice(1, text.indexOf("#", 1));
    if (!streams.has(id)) {
      const row = noteRow("");
      row.setAttribute("aria-live", "off");
      streams.set(id, { row, count: 0 });
      log.add(row);
    }
    const stream = streams.get(id);
    stream.count += 1;
    stream.row.textContent = `${displayName(id)}: ${stream.count} frames`;
  }

  function showState({ state, code, reason, seconds }) {
    view.classList.toggle("disconnected", state !== "joined");
    if (state === "joining") status.replaceChildren("Joining…");
    if (state === "joined") status.replaceChildren();
    if (state === "lost") {
      participants.clear();
      const reasonText = reason ? ` (${displayName(reason)})` : "";
      const text = `Connection lost${reasonText}. Reconnecting in ${seconds} s. `;
      const reconnect = () => connection.reconnectNow();
      status.replaceChildren(text, el("button", { type: "button", onclick: reconnect }, "Now"));
    }
    if (state === "closed") {
      leave();
      status.replaceChildren(displayName(reason || "The gateway closed the connection."));
      onClosed({ code, reason: displayName(reason), hasJoined });
    }
  }

  function leave() {
    connection.leave();
    approvals.stop();
    participants.clear();
  }

  return { view, leave };
}

function parseOrNull(text) {
  try {
    return parseExact(text);
  } catch {
    return null;
  }
}
