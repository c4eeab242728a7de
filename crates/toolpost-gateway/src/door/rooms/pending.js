// What was sent, and who waits for what comes of it.

/** How many are waited for. */
const MOST = 500;

/** Each is known by the id of its message; `{answered(payload), refused(words)}` are told of it. */
export function newPending() {
  const waiting = new Map();
  const take = (message) => {
    const about = Array.isArray(message.correlation_id) ? message.correlation_id : [];
    const found = about.map((id) => waiting.get(id)).filter(Boolean);
    about.forEach((id) => waiting.delete(id));
    return found;
  };
  return {
    add(id, who) {
      waiting.set(id, who);
      if (waiting.size > MOST) waiting.delete(waiting.keys().next().value);
    },
    answered(message) {
      take(message).forEach((one) => one.answered?.(message.payload ?? {}));
    },
    /** Whether it was something that the reader did, and not the page by itself. */
    refused(message, words) {
      const found = take(message);
      found.forEach((one) => one.refused?.(words));
      return !found.some((one) => one.answered);
    },
  };
}

/** Ids need not be secret, only different; without TLS there are no better ones. */
export function newId() {
  const random = crypto.getRandomValues(new Uint32Array(3));
  return `page-${[...random].map((part) => part.toString(36)).join("")}`;
}
