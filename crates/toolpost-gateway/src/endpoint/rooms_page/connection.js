// A WebSocket connection to a room that reconnects after a loss.
import { BASE } from "./url.js";

/** The delay before each attempt to reconnect, in milliseconds. */
const RECONNECT_DELAYS_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000];
/** Close codes without a reconnect: unauthorized, forbidden, replaced. */
const FINAL_CLOSE_CODES = new Set([4401, 4403, 4409]);
/** Maximum number of history messages in the welcome. */
export const HISTORY_LIMIT = 100;

/**
 * Connects to a room. `onFrame` gets the frames in order, each after the previous one is handled.
 * `onState` gets each change: `{state: "joining" | "lost" | "closed", code, reason, seconds}`.
 */
export function newConnection(room, caller, onFrame, onState) {
  let socket = null;
  let failures = 0;
  let timer = 0;
  let hasLeft = false;

  const open = () => {
    clearTimeout(timer);
    onState({ state: "joining" });
    const opened = new WebSocket(webSocketUrl(room));
    let lastFrame = Promise.resolve();
    socket = opened;
    opened.addEventListener("open", () => opened.send(caller.joinFrame(room)));
    opened.addEventListener("message", ({ data }) => {
      lastFrame = lastFrame
        .then(() => socket === opened && onFrame(data))
        .catch(console.error);
    });
    opened.addEventListener("close", ({ code, reason }) => {
      // Frames received before the close are handled first.
      lastFrame.then(() => socket === opened && handleClose(code, reason));
    });
  };

  const handleClose = (code, reason) => {
    socket = null;
    if (hasLeft) return;
    if (FINAL_CLOSE_CODES.has(code)) return onState({ state: "closed", code, reason });
    const delay = RECONNECT_DELAYS_MS[Math.min(failures, RECONNECT_DELAYS_MS.length - 1)];
    const jittered = delay * (0.75 + Math.random() / 2);
    failures += 1;
    timer = setTimeout(open, jittered);
    onState({ state: "lost", code, reason, seconds: Math.ceil(jittered / 1_000) });
  };

  const reconnectNow = () => {
    if (socket || hasLeft) return;
    failures = 0;
    open();
  };
  addEventListener("online", reconnectNow);
  open();
  return {
    /** Called after a welcome: the next loss starts with the shortest delay. */
    resetFailures: () => (failures = 0),
    /** Returns whether the text was sent. */
    send(text) {
      if (socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(text);
      return true;
    },
    reconnectNow,
    leave() {
      hasLeft = true;
      clearTimeout(timer);
      removeEventListener("online", reconnectNow);
      socket?.close(1000);
      socket = null;
    },
  };
}

function webSocketUrl(room) {
  const url = new URL("ws", BASE);
  url.protocol = BASE.protocol === "https:" ? "wss:" : "ws:";
  url.search = new URLSearchParams({ space: room, history: HISTORY_LIMIT });
  return url;
}
