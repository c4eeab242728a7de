// A connection to a room that comes back when it is lost.
import { BASE } from "./address.js";

/** How long to wait before each return, in milliseconds. */
const WAITS = [500, 1_000, 2_000, 4_000, 8_000, 15_000];
/** Goodbyes after which nobody returns by himself: unknown, refused, replaced. */
const FINAL = new Set([4401, 4403, 4409]);
/** How many messages the welcome brings. */
export const HISTORY = 100;

/**
 * Joins a room. `hear` is given each frame, in order, the next when it is done with the last. `tell`
 * is given what becomes of it: `{state: "joining" | "lost" | "ended", code, words, seconds}`.
 */
export function newConnection(room, caller, hear, tell) {
  let socket = null;
  let failures = 0;
  let timer = 0;
  let isLeft = false;

  const open = () => {
    clearTimeout(timer);
    tell({ state: "joining" });
    const opened = new WebSocket(address(room));
    let turn = Promise.resolve();
    socket = opened;
    opened.addEventListener("open", () => opened.send(caller.join(room)));
    opened.addEventListener("message", ({ data }) => {
      turn = turn.then(() => socket === opened && hear(data)).catch(console.error);
    });
    opened.addEventListener("close", ({ code, reason }) => {
      // What was said before the goodbye is heard before it.
      turn.then(() => socket === opened && closed(code, reason));
    });
  };

  const closed = (code, words) => {
    socket = null;
    if (isLeft) return;
    if (FINAL.has(code)) return tell({ state: "ended", code, words });
    const wait = WAITS[Math.min(failures, WAITS.length - 1)] * (0.75 + Math.random() / 2);
    failures += 1;
    timer = setTimeout(open, wait);
    tell({ state: "lost", code, words, seconds: Math.ceil(wait / 1_000) });
  };

  const hurry = () => {
    if (socket || isLeft) return;
    failures = 0;
    open();
  };
  addEventListener("online", hurry);
  open();
  return {
    /** Somebody was welcomed: the next loss is the first one again. */
    settled: () => (failures = 0),
    /** Whether it was sent. */
    send(text) {
      if (socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(text);
      return true;
    },
    hurry,
    leave() {
      isLeft = true;
      clearTimeout(timer);
      removeEventListener("online", hurry);
      socket?.close(1000);
      socket = null;
    },
  };
}

function address(room) {
  const url = new URL("ws", BASE);
  url.protocol = BASE.protocol === "https:" ? "wss:" : "ws:";
  url.search = new URLSearchParams({ space: room, history: HISTORY });
  return url;
}
