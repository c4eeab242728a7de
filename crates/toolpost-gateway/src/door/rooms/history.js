// What was said before: each message once, and none left out that can be had.
import { HISTORY } from "./connection.js";

/** How many messages are known, so that none is shown twice. */
const KNOWN = 2_000;
/** How many pages are read to close a gap. */
const PAGES = 4;

/** The messages that were shown. */
export function newSeen() {
  const keys = new Set();
  return {
    isEmpty: () => keys.size === 0,
    has: (message) => keys.has(keyOf(message)),
    add(message) {
      keys.add(keyOf(message));
      if (keys.size > KNOWN) keys.delete(keys.keys().next().value);
    },
  };
}

/** A message is itself by its id, its sender and its time: programs that begin anew count anew. */
function keyOf(message) {
  return JSON.stringify([message?.id, message?.from, message?.ts]);
}

/**
 * What was said between the last message that was seen and the first of `history`; `isWhole` says
 * whether that is everything.
 */
export async function between(room, caller, seen, history) {
  const isClosed = (list) => list.some(seen.has);
  let found = [];
  const isAll = seen.isEmpty() || history.length < HISTORY || isClosed(history);
  if (isAll) return { found, isWhole: true };
  for (let count = 0; count < PAGES; count += 1) {
    const page = await pageBefore(room, caller, (found[0] ?? history[0]).id);
    found = [...page.toReversed(), ...found];
    if (page.length === 0) break;
    if (isClosed(page)) return { found, isWhole: true };
  }
  return { found, isWhole: false };
}

/** The newest first. */
async function pageBefore(room, caller, id) {
  const query = new URLSearchParams({ limit: HISTORY, before: id, protocol: "mew/v0.4" });
  const path = `v0.1/topics/${encodeURIComponent(room)}/history?${query}`;
  const answer = await caller.ask(path).catch(() => null);
  return Array.isArray(answer?.messages) ? answer.messages : [];
}
