// The proposals of a room and their state.
import { el } from "../docs/dom.js";
import { mayAllow } from "./capability.js";
import { newCard } from "./card.js";
import { messageHead, subjectText } from "./message.js";
import { displayName, displayNames, fullJsonView } from "./text.js";

/** Maximum number of tracked proposals. */
const MAX_REMEMBERED = 1_000;
const GATEWAY = "system:gateway";

/**
 * The proposals. `room` sends the decisions: `send(kind, fields, onError)`; `room.self()` is the
 * participant of this page. `onChange` is called when the number of open proposals may have changed.
 */
export function newProposals(room, onChange) {
  const proposals = new Map();

  const close = (id, text, tone) => {
    const proposal = proposals.get(id);
    if (!proposal) return;
    proposal.isOpen = false;
    proposal.card.setDone(text, tone);
    onChange();
  };
  const closeOpen = (ids, text, tone) =>
    arrayOrEmpty(ids)
      .filter((id) => proposals.get(id)?.isOpen)
      .forEach((id) => close(id, text, tone));

  return {
    has: (id) => proposals.has(id),
    /** Adds a proposal and returns its card. */
    add(message) {
      closeOpen([message.id], "Replaced by a proposal with the same id");
      const label = `Proposal by ${displayName(message.from)}: ${subjectText(message.payload)}`;
      const card = newCard(label, cardContent(message));
      card.setActions(actionsOf(card, message, room));
      proposals.delete(message.id);
      proposals.set(message.id, { message, card, isOpen: true });
      if (proposals.size > MAX_REMEMBERED) proposals.delete(proposals.keys().next().value);
      onChange();
      return card.view;
    },
    /** Updates the proposal that a message decides, if there is one. */
    update({ kind, from, correlation_id: ids, context_of: context, payload }) {
      if (kind === "mcp/request") closeOpen(ids, `Approved by ${displayName(from)}`);
      if (kind === "mcp/withdraw") closeOpen(ids, `Withdrawn by ${displayName(from)}`);
      if (kind === "mcp/reject") {
        const reason = payload?.reason ? `: ${displayName(payload.reason)}` : "";
        const text = `Rejected by ${displayName(from)}${reason}`;
        closeOpen(ids, from === GATEWAY ? "Expired without a decision" : text, "bad");
      }
      if (kind === "mcp/response" && context?.proposal_id) {
        const isSuccess = context.outcome !== "error";
        const outcome = isSuccess
          ? `Completed by ${displayName(from)}`
          : `Error from ${displayName(from)}`;
        const wasApproved = context.request_id !== context.proposal_id;
        const approval = wasApproved ? `Approved by ${displayName(context.from)}. ` : "";
        close(context.proposal_id, approval + outcome, isSuccess ? "good" : "bad");
      }
    },
    /** Resets the buttons after a welcome: capabilities may have changed, and responses may be lost. */
    refresh() {
      for (const { message, card, isOpen } of proposals.values()) {
        if (!isOpen) continue;
        card.setFailed("");
        card.setActions(actionsOf(card, message, room));
      }
    },
    open: () => [...proposals.values()].filter(({ isOpen }) => isOpen),
  };
}

/** The actions of this participant for a proposal; only its proposer can withdraw it. */
function actionsOf(card, { id, from, to, payload }, room) {
  const subject = subjectText(payload);
  const decide = (progressText, kind, fields) => {
    const onError = (message) => card.setFailed(message);
    card.setPending(progressText);
    if (!room.send(kind, { correlation_id: [id], ...fields }, onError)) onError("Not connected.");
  };
  const approve = {
    name: "Approve",
    label: `Approve ${subject}, proposed by ${displayName(from)}`,
    isPrimary: true,
    run: () => decide("Approving…", "mcp/request", { to, payload }),
  };
  const reject = {
    name: "Reject",
    label: `Reject ${subject}, proposed by ${displayName(from)}`,
    takesReason: true,
    run: (reason) =>
      decide("Rejecting…", "mcp/reject", { to: [from], payload: { reason: reason || "disagree" } }),
  };
  const withdraw = {
    name: "Withdraw",
    label: `Withdraw ${subject}`,
    run: () => decide("Withdrawing…", "mcp/withdraw", { payload: { reason: "no_longer_needed" } }),
  };
  const { id: ownId, capabilities } = room.self();
  if (from === ownId) return [withdraw];
  return [
    mayAllow(capabilities, "mcp/request", payload, to) && approve,
    mayAllow(capabilities, "mcp/reject", { reason: "" }, [from]) && reject,
  ].filter(Boolean);
}

function cardContent(message) {
  const { to, payload } = message;
  const { method, params } = payload ?? {};
  const isPlain = Object.keys(params ?? {}).every((key) => key === "name" || key === "arguments");
  const input = method === "tools/call" && isPlain ? params?.arguments : params;
  return [
    messageHead(message, ["proposes ", el("code", null, subjectText(payload))]),
    to?.length > 0 && el("p", { class: "quiet" }, `Addressed to ${displayNames(to)}`),
    fullJsonView(input, "Proposed input"),
  ];
}

function arrayOrEmpty(value) {
  return Array.isArray(value) ? value : [];
}
