// The proposals of a room, and what becomes of them.
import { el } from "../docs/dom.js";
import { could } from "./capability.js";
import { newCard } from "./card.js";
import { named, names, whole } from "./text.js";
import { headOf, subject } from "./message.js";

/** How many are remembered. */
const KNOWN = 1_000;
const GATEWAY = "system:gateway";

/** `room` sends: `send(kind, fields, refused)`, and knows who is here: `you()`. */
export function newProposals(room, changed) {
  const known = new Map();

  const end = (id, words, tone) => {
    const proposal = known.get(id);
    if (!proposal) return;
    proposal.isOpen = false;
    proposal.card.end(words, tone);
    changed();
  };
  const endOpen = (ids, words, tone) =>
    listOf(ids)
      .filter((id) => known.get(id)?.isOpen)
      .forEach((id) => end(id, words, tone));

  return {
    has: (id) => known.has(id),
    /** The card of a new one. */
    add(message) {
      endOpen([message.id], "Proposed again under the same id");
      const label = `Proposal of ${named(message.from)}: ${subject(message.payload)}`;
      const card = newCard(label, partsOf(message));
      card.offer(actionsOf(card, message, room));
      known.delete(message.id);
      known.set(message.id, { message, card, isOpen: true });
      if (known.size > KNOWN) known.delete(known.keys().next().value);
      changed();
      return card.view;
    },
    /** Looks whether a message decides about one. */
    observe({ kind, from, correlation_id: about, context_of: context, payload }) {
      if (kind === "mcp/request") endOpen(about, `Approved by ${named(from)}`);
      if (kind === "mcp/withdraw") endOpen(about, `Withdrawn by ${named(from)}`);
      if (kind === "mcp/reject") {
        const reason = payload?.reason ? `: ${named(payload.reason)}` : "";
        const words = `Rejected by ${named(from)}${reason}`;
        endOpen(about, from === GATEWAY ? "Nobody took it up in time" : words, "bad");
      }
      if (kind === "mcp/response" && context?.proposal_id) {
        const isGood = context.outcome !== "error";
        const words = isGood ? `Done by ${named(from)}` : `Failed at ${named(from)}`;
        const isAsked = context.request_id !== context.proposal_id;
        const asked = isAsked ? `Approved by ${named(context.from)}. ` : "";
        end(context.proposal_id, asked + words, isGood ? "good" : "bad");
      }
    },
    /** What the reader may has changed, or nobody answers any more what he has clicked. */
    refresh() {
      for (const { message, card, isOpen } of known.values()) {
        if (!isOpen) continue;
        card.again("");
        card.offer(actionsOf(card, message, room));
      }
    },
    open: () => [...known.values()].filter(({ isOpen }) => isOpen),
  };
}

/** What the reader may do about a proposal; only its own proposer can take it back. */
function actionsOf(card, { id, from, to, payload }, room) {
  const what = subject(payload);
  const decide = (words, kind, fields) => {
    const refused = (why) => card.again(why);
    card.begin(words);
    if (!room.send(kind, { correlation_id: [id], ...fields }, refused)) refused("Not connected.");
  };
  const approve = {
    name: "Approve",
    label: `Approve ${what} of ${named(from)}`,
    isFirst: true,
    run: () => decide("Approving…", "mcp/request", { to, payload }),
  };
  const reject = {
    name: "Reject",
    label: `Reject ${what} of ${named(from)}`,
    takesReason: true,
    run: (reason) =>
      decide("Rejecting…", "mcp/reject", { to: [from], payload: { reason: reason || "disagree" } }),
  };
  const withdraw = {
    name: "Withdraw",
    label: `Withdraw ${what}`,
    run: () => decide("Withdrawing…", "mcp/withdraw", { payload: { reason: "no_longer_needed" } }),
  };
  const { id: you, capabilities } = room.you();
  if (from === you) return [withdraw];
  return [
    could(capabilities, "mcp/request", payload) && approve,
    could(capabilities, "mcp/reject", { reason: "" }) && reject,
  ].filter(Boolean);
}

function partsOf(message) {
  const { to, payload } = message;
  const { method, params } = payload ?? {};
  const isPlain = Object.keys(params ?? {}).every((key) => key === "name" || key === "arguments");
  const input = method === "tools/call" && isPlain ? params?.arguments : params;
  return [
    headOf(message, ["proposes ", el("code", null, subject(payload))]),
    to?.length > 0 && el("p", { class: "quiet" }, `To be done by ${names(to)}`),
    whole(input, "What is proposed"),
  ];
}

function listOf(value) {
  return Array.isArray(value) ? value : [];
}
