// Somebody in a room who is no person.
import { told } from "../browser/chromium.mjs";

/** How long anything may take on a busy machine, in milliseconds. */
const PATIENCE = 20_000;

/** Comes into a room of the gateway that asks for tokens. */
export async function participant(name, room) {
  const url = new URL(`/ws?space=${room}`, told.closed);
  url.protocol = "ws:";
  const socket = new WebSocket(url);
  const heard = [];
  const waiting = new Set();
  let count = 0;
  socket.addEventListener("open", () =>
    socket.send(JSON.stringify({ type: "join", space: room, token: `tpt_${name}` })),
  );
  socket.addEventListener("message", ({ data }) => {
    heard.push(JSON.parse(data));
    for (const look of waiting) look();
  });
  const self = {
    heard,
    /** The first message that fits, from now on or from before. */
    hears(what, fits) {
      return new Promise((resolve, reject) => {
        const tooLate = () => reject(new Error(`${name} does not hear ${what}`));
        const timer = setTimeout(tooLate, PATIENCE);
        const look = () => {
          const found = heard.find(fits);
          if (!found) return;
          clearTimeout(timer);
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      });
    },
    say(kind, payload, rest = {}) {
      count += 1;
      const id = `${name}-${room}-${count}`;
      socket.send(JSON.stringify({ kind, id, payload, ...rest }));
      return id;
    },
    leave: () => socket.close(),
  };
  await self.hears("a welcome", ({ kind }) => kind === "system/welcome");
  return self;
}
