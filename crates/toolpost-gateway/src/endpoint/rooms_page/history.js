// Earlier messages: each is shown once, and gaps are filled from the history.
import { HISTORY_LIMIT } from "./connection.js";

/** Maximum number of message keys remembered to detect duplicates. */
const MAX_REMEMBERED = 2_000;
/** Maximum number of history pages to read to fill a gap. */
const MAX_PAGES = 4;

/** The set of messages that were shown. */
export function newShownMessages() {
  const keys = new Set();
  return {
    isEmpty: () => keys.size === 0,
    has: (message) => keys.has(keyOf(message)),
    add(message) {
      keys.add(keyOf(message));
      if (keys.size > MAX_REMEMBERED) keys.delete(keys.keys().next().value);
    },
  };
}

/** A message is identified by id, sender and time, because a restarted participant may reuse ids. */
function keyOf(message) {
  return JSON.stringify([message?.id, message?.from, message?.ts]);
}

/**
 * The messages between the last shown message and the first of `history`; `isComplete` is whether
 * none is missing.
 */
export async function loadMissed(room, caller, shown, history) {
  const reachesShown = (messages) => messages.some(shown.has);
  let missed = [];
  const hasNoGap = shown.isEmpty() || history.length < HISTORY_LIMIT || reachesShown(history);
  if (hasNoGap) return { missed, isComplete: true };
  for (let count = 0; count < MAX_PAGES; count += 1) {
    const page = await pageBefore(room, caller, (missed[0] ?? history[0]).id);
    missed = [...page.toReversed(), ...missed];
    if (page.length === 0) break;
    if (reachesShown(page)) return { missed, isComplete: true };
  }
  return { missed, isComplete: false };
}

/** A page of history, newest message first. */
async function pageBefore(room, caller, id) {
  const query = new URLSearchParams({ limit: HISTORY_LIMIT, before: id, protocol: "mew/v0.4" });
  const path = `v0.1/topics/${encodeURIComponent(room)}/history?${query}`;
  const response = await caller.request(path).catch(() => null);
  return Array.isArray(response?.messages) ? response.messages : [];
}
