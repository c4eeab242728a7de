// A room: what is said there, who is there, and what the reader says himself.
import { el } from "../docs/dom.js";
import { exact } from "../docs/json.js";
import { newApprovals } from "./approvals.js";
import { newCalling } from "./calling.js";
import { could } from "./capability.js";
import { HISTORY, newConnection } from "./connection.js";
import { newLog } from "./log.js";
import { errorRow, noteRow, rowOf } from "./message.js";
import { newProposals } from "./proposals.js";
import { named } from "./text.js";

/** How many messages are known by their id, so that none is shown twice. */
const KNOWN = 2_000;
/** How many pages of history are read to close a gap. */
const PAGES = 4;
/** How many answers and refusals are waited for. */
const PENDING = 500;

/** Comes into a room. `ended` is told when this cannot go on: `{code, words, wasHere}`. */
export function enterRoom(name, caller, people, arrived, ended) {
  let you = { id: "", capabilities: [] };
  let wasHere = false;
  const known = new Set();
  const pending = new Map();
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
  const talk = talkView(self);
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

  /** Sends a message; `refused` is told the words if the gateway does not take it. Gives its id. */
  function send(kind, fields, refused) {
    const id = newId();
    const message = { protocol: "mew/v0.4", id, kind, ...fields };
    if (!message.to?.length) delete message.to;
    if (!wasHere || !connection.send(JSON.stringify(message))) return null;
    remember(id, { refused });
    return id;
  }

  /** Sends a request whose answer somebody waits for. */
  function ask(payload, to, answered) {
    const id = send("mcp/request", { to, payload });
    if (id) pending.get(id).answered = answered;
    return id !== null;
  }

  function remember(id, what) {
    pending.set(id, what);
    if (pending.size > PENDING) pending.delete(pending.keys().next().value);
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
    if (Array.isArray(history)) await catchUp(history, isFirst);
    if (!isFirst && !isReturn) log.add(noteRow("What you may do here has changed."));
  }

  /** Shows what was said before, or while nobody was connected. */
  async function catchUp(history, isFirst) {
    const missed = isFirst ? history : [...(await between(history)), ...history];
    await log.quietly(() => missed.forEach(show));
  }

  /** What was said between the last message that is known and the first of `history`. */
  async function between(history) {
    let found = [];
    let oldest = history[0];
    const isClosed = (list) => list.some((message) => known.has(keyOf(message)));
    if (known.size === 0 || history.length < HISTORY || isClosed(history)) return found;
    for (let page = 0; page < PAGES; page += 1) {
      const query = new URLSearchParams({ limit: HISTORY, before: oldest.id, protocol: "mew/v0.4" });
      const path = `v0.1/topics/${encodeURIComponent(name)}/history?${query}`;
      const { messages = [] } = (await caller.ask(path).catch(() => null)) ?? {};
      if (messages.length === 0) break;
      found = [...messages.toReversed(), ...found];
      if (isClosed(messages)) return found;
      oldest = found[0];
    }
    log.add(noteRow("Some messages in between are not shown."));
    return found;
  }

  function show(message) {
    const key = keyOf(message);
    if (typeof message?.kind !== "string" || known.has(key)) return;
    known.add(key);
    if (known.size > KNOWN) known.delete(known.keys().next().value);
    if (message.kind === "mcp/proposal") return log.add(proposals.add(message));
    proposals.observe(message);
    answered(message);
    log.add(rowOf(message));
  }

  function answered({ kind, correlation_id: about, payload }) {
    if (kind !== "mcp/response" || !Array.isArray(about)) return;
    for (const id of about) {
      pending.get(id)?.answered?.(payload ?? {});
      pending.delete(id);
    }
  }

  function refused(message) {
    const about = Array.isArray(message.correlation_id) ? message.correlation_id : [];
    const words = named(message.payload?.message ?? message.payload?.error ?? "refused");
    // What the page has asked by itself is nothing that its reader has done.
    if (!about.some((id) => pending.get(id)?.answered)) log.add(errorRow(message));
    for (const id of about) {
      pending.get(id)?.refused?.(words);
      pending.delete(id);
    }
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
      streams.set(id, { row: noteRow(""), count: 0 });
      log.add(streams.get(id).row);
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
      status.replaceChildren(`The connection was lost${why}. Trying again in ${seconds} s. `, again);
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

/** A line to talk. */
function talkView(room) {
  const text = el("textarea", {
    id: "talk",
    rows: 1,
    "aria-label": "Say something",
    placeholder: "Say something",
    enterkeyhint: "send",
  });
  const wrong = el("p", { class: "wrong", role: "alert" });
  const button = el("button", { type: "submit", class: "primary" }, "Say");
  const form = el("form", { class: "talk" }, text, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = text.value;
    if (words.trim() === "") return;
    const restore = () => (text.value ||= words);
    const isSent = room.send("chat", { payload: { text: words, format: "plain" } }, restore) !== null;
    wrong.textContent = isSent ? "" : "Not connected; what you wrote stays here.";
    if (isSent) text.value = "";
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return {
    view: el("div", null, form, wrong),
    refresh() {
      const may = could(room.you().capabilities, "chat", { text: "" });
      text.disabled = button.disabled = !may;
      text.placeholder = may ? "Say something" : "You may not talk here";
    },
  };
}

/** A message is itself by its id, its sender and its time: programs that begin anew count anew. */
function keyOf(message) {
  return JSON.stringify([message?.id, message?.from, message?.ts]);
}

/** Ids need not be secret, only different; without TLS there are no better ones. */
function newId() {
  const random = crypto.getRandomValues(new Uint32Array(3));
  return `page-${[...random].map((part) => part.toString(36)).join("")}`;
}

function parsed(text) {
  try {
    return exact(text);
  } catch {
    return null;
  }
}
