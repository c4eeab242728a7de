// A programmatic room participant.
import { config } from "../browser/chromium.mjs";

/** The timeout for a message, long enough for a busy machine. */
const TIMEOUT_MS = 20_000;

/** Joins a room of the gateway that requires tokens. */
export async function participant(name, room) {
  const url = new URL(`/ws?space=${room}`, config.closed);
  url.protocol = "ws:";
  const socket = new WebSocket(url);
  const received = [];
  const pendingChecks = new Set();
  let count = 0;
  socket.addEventListener("open", () =>
    socket.send(JSON.stringify({ type: "join", space: room, token: `tpt_${name}` })),
  );
  socket.addEventListener("message", ({ data }) => {
    received.push(JSON.parse(data));
    for (const check of pendingChecks) check();
  });
  const self = {
    received,
    /** The first matching message, received already or later. */
    waitForMessage(description, matches) {
      return new Promise((resolve, reject) => {
        const onTimeout = () => reject(new Error(`${name} did not receive ${description}`));
        const timer = setTimeout(onTimeout, TIMEOUT_MS);
        const check = () => {
          const found = received.find(matches);
          if (!found) return;
          clearTimeout(timer);
          pendingChecks.delete(check);
          resolve(found);
        };
        pendingChecks.add(check);
        check();
      });
    },
    send(kind, payload, rest = {}) {
      count += 1;
      const id = `${name}-${room}-${count}`;
      socket.send(JSON.stringify({ kind, id, payload, ...rest }));
      return id;
    },
    leave: () => socket.close(),
  };
  await self.waitForMessage("a welcome", ({ kind }) => kind === "system/welcome");
  return self;
}
