// A room: what is said there, who is there, and what the reader says himself.
import { el } from "../docs/dom.js";
import { exact } from "../docs/json.js";
import { newApprovals } from "./approvals.js";
import { newCalling } from "./calling.js";
import { newConnection } from "./connection.js";
import { between, newSeen } from "./history.js";
import { newLog } from "./log.js";
import { errorRow, noteRow, rowOf } from "./message.js";
import { newId, newPending } from "./pending.js";
import { newProposals } from "./proposals.js";
import { newTalk } from "./talk.js";
import { named } from "./text.js";

/** Comes into a room. `ended` is told when this cannot go on: `{code, words, wasHere}`. */
export function enterRoom(name, caller, people, arrived, ended) {
  let you = { id: "", capabilities: [] };
  let wasHere = false;
  const seen = newSeen();
  const pending = newPending();
  const streams = new Map();
  const log = newLog();
  const status = el("p", { class: "connection", role: "status" });
  const waits = el("button", { type: "button", class: "waits", hidden: true });
  const self = { you: () => you, send, ask };
  const proposals = newProposals(self, () => {
    const count = proposals.open().length;
    waits.hidden = count === 0;
    waits.textContent = count === 1 ? "1 proposal waits" : `${count} proposals wait`;
  });
  const talk = newTalk(self);
  const calling = newCalling(self);
  const isShown = ({ room, requestId }) => room === name && proposals.has(requestId);
  const approvals = newApprovals(caller, isShown, () => you.id);
  waits.addEventListener("click", () => {
    const [first] = proposals.open();
    first?.card.view.scrollIntoView({ block: "center" });
    first?.card.focus();
  });
  const view = el(
    "div",
    { class: "room away" },
    el("div", { class: "room-head" }, el("h1", { tabindex: -1 }, named(name)), waits, status),
    approvals.view,
    log.view,
    el("div", { class: "foot" }, talk.view, calling.view),
  );
  const connection = newConnection(name, caller, hear, tell);

  /** Sends a message; `refused` is told why the gateway does not take it. Whether it was sent. */
  function send(kind, fields, refused, answered) {
    const id = newId();
    const message = { protocol: "mew/v0.4", id, kind, ...fields };
    if (!message.to?.length) delete message.to;
    if (!wasHere || !connection.send(JSON.stringify(message))) return false;
    pending.add(id, { refused, answered });
    return true;
  }

  /** Sends a request whose answer the page itself waits for. */
  function ask(payload, to, answered) {
    return send("mcp/request", { to, payload }, null, answered);
  }

  async function hear(text) {
    if (text.startsWith("#")) return countFrame(text);
    const message = parsed(text);
    if (typeof message?.kind !== "string") return;
    switch (message.kind) {
      case "system/welcome":
        return welcome(message.payload ?? {});
      case "system/presence":
        return presence(message.payload ?? {});
      case "system/error":
        return refused(message);
      case "system/proposal":
        return;
      default:
        show(message);
    }
  }

  async function welcome({ you: self, participants, history }) {
    const isFirst = !wasHere;
    const isReturn = !isFirst && Array.isArray(history);
    you = self ?? you;
    wasHere = true;
    people.load(you, participants);
    connection.settled();
    talk.refresh();
    calling.refresh();
    proposals.refresh();
    tell({ state: "here" });
    arrived(you.id);
    if (isFirst) approvals.begin();
    if (Array.isArray(history)) await catchUp(history);
    if (!isFirst && !isReturn) log.add(noteRow("What you may do here has changed."));
  }

  /** Shows what was said before, or while nobody was connected. */
  async function catchUp(history) {
    const { found, isWhole } = await between(name, caller, seen, history);
    if (!isWhole) log.add(noteRow("Some messages in between are not shown."));
    log.quietly(() => [...found, ...history].forEach(show));
  }

  function show(message) {
    if (typeof message?.kind !== "string" || seen.has(message)) return;
    seen.add(message);
    if (message.kind === "mcp/proposal") return log.add(proposals.add(message));
    proposals.observe(message);
    if (message.kind === "mcp/response") pending.answered(message);
    log.add(rowOf(message));
  }

  function refused(message) {
    const words = named(message.payload?.message ?? message.payload?.error ?? "refused");
    if (pending.refused(message, words)) log.add(errorRow(message));
  }

  function presence({ event, participant }) {
    const words = { join: "has come", leave: "has left" }[event];
    if (event === "join") people.come(participant);
    if (event === "leave") people.go(participant);
    if (words) log.add(noteRow(`${named(participant?.id)} ${words}.`));
  }

  /** What comes by a stream is counted, one row for each stream. */
  function countFrame(text) {
    const id = text.slice(1, text.indexOf("#", 1));
    if (!streams.has(id)) {
      const row = noteRow("");
      row.setAttribute("aria-live", "off");
      streams.set(id, { row, count: 0 });
      log.add(row);
    }
    const stream = streams.get(id);
    stream.count += 1;
    stream.row.textContent = `${named(id)}: ${stream.count} frames`;
  }

  function tell({ state, code, words, seconds }) {
    const again = el("button", { type: "button", onclick: () => connection.hurry() }, "Now");
    view.classList.toggle("away", state !== "here");
    if (state === "joining") status.replaceChildren("Coming in…");
    if (state === "here") status.replaceChildren();
    if (state === "lost") {
      people.clear();
      const why = words ? ` (${named(words)})` : "";
      const lost = `The connection was lost${why}. Trying again in ${seconds} s. `;
      status.replaceChildren(lost, again);
    }
    if (state === "ended") {
      leave();
      status.replaceChildren(named(words || "The gateway has ended the connection."));
      ended({ code, words: named(words), wasHere });
    }
  }

  function leave() {
    connection.leave();
    approvals.leave();
    people.clear();
  }

  return { view, leave };
}

function parsed(text) {
  try {
    return exact(text);
  } catch {
    return null;
  }
}
