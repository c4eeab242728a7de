// The calls pending approval at the gateway, if the caller's token may list them.
import { el } from "../docs/dom.js";
import { newCard } from "./card.js";
import { displayName, fullJsonView } from "./text.js";

const POLL_INTERVAL_MS = 4_000;
/** HTTP statuses that end the polling. */
const FINAL_STATUSES = new Set([401, 403, 404]);

/** `hasCard` returns whether an entry is shown already; `ownId` returns the id of the caller. */
export function newApprovals(caller, hasCard, ownId) {
  const cards = new Map();
  const list = el("ul");
  const view = el(
    "section",
    { class: "approvals", "aria-label": "Calls pending approval", hidden: true },
    el("h2", null, "Calls pending approval"),
    list,
  );
  let timer = 0;
  let isStopped = false;

  const render = (entries) => {
    const pending = new Map(
      entries.filter((entry) => !hasCard(entry)).map((entry) => [entry.id, entry]),
    );
    for (const [id, card] of cards) {
      if (pending.has(id)) continue;
      card.view.remove();
      cards.delete(id);
    }
    for (const [id, entry] of pending) {
      if (cards.has(id)) continue;
      cards.set(id, approvalCard(entry, ownId(), decide));
      list.append(cards.get(id).view);
    }
    view.hidden = cards.size === 0;
  };

  const poll = async () => {
    clearTimeout(timer);
    if (isStopped || !caller.hasToken() || document.visibilityState !== "visible") return;
    try {
      const response = await caller.request("api/gateway/approvals", {});
      if (!isStopped) render(Array.isArray(response?.approvals) ? response.approvals : []);
    } catch (error) {
      if (FINAL_STATUSES.has(error.status)) return stop();
    }
    clearTimeout(timer);
    timer = setTimeout(poll, POLL_INTERVAL_MS);
  };

  const decide = async (card, progressText, operation, input) => {
    card.setPending(progressText);
    try {
      await caller.request(`api/gateway/${operation}`, input);
      card.setDone(operation === "approve" ? "Approved" : "Rejected");
    } catch (error) {
      card.setFailed(error.message);
    }
    poll();
  };

  const stop = () => {
    isStopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", poll);
  };
  const start = () => {
    document.addEventListener("visibilitychange", poll);
    poll();
  };
  return { view, start, stop };
}

function approvalCard(entry, ownId, decide) {
  const { id, operation, caller, room, input, inputDigest } = entry;
  const operationName = displayName(operation);
  // A call of the gateway itself has no caller.
  const callerName = caller && displayName(caller);
  const call = callerName ? `${operationName}, called by ${callerName}` : operationName;
  const roomText = room && ` in the room ${displayName(room)}`;
  const isOwn = caller === ownId;
  const approve = {
    name: "Approve",
    label: `Approve ${call}`,
    isPrimary: true,
    run: () => decide(card, "Approving…", "approve", { id, inputDigest }),
  };
  const reject = {
    name: "Reject",
    label: `Reject ${call}`,
    takesReason: true,
    run: (reason) => decide(card, "Rejecting…", "reject", reason ? { id, reason } : { id }),
  };
  const card = newCard(
    `Call pending approval: ${call}`,
    [
      el(
        "div",
        { class: "head" },
        callerName && el("strong", { class: "sender" }, callerName),
        el(
          "span",
          { class: "action" },
          callerName ? "calls " : "Call of ",
          el("code", null, operationName),
          roomText,
        ),
      ),
      fullJsonView(input, "Input"),
      isOwn && el("p", { class: "quiet" }, "You cannot approve or reject your own call."),
    ],
  );
  card.setActions(isOwn ? [] : [approve, reject]);
  return card;
}
