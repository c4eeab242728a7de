// The messages that were sent and wait for a response or an error.

const MAX_PENDING = 500;

/** Pending messages by id; each has the callbacks `{onResponse(payload), onError(message)}`. */
export function newPendingRequests() {
  const pending = new Map();
  const takeCorrelated = (message) => {
    const ids = Array.isArray(message.correlation_id) ? message.correlation_id : [];
    const callbacks = ids.map((id) => pending.get(id)).filter(Boolean);
    ids.forEach((id) => pending.delete(id));
    return callbacks;
  };
  return {
    add(id, callbacks) {
      pending.set(id, callbacks);
      if (pending.size > MAX_PENDING) pending.delete(pending.keys().next().value);
    },
    resolve(message) {
      takeCorrelated(message).forEach(({ onResponse }) => onResponse?.(message.payload ?? {}));
    },
    /** Returns whether the user sent the message, not the page itself. */
    reject(message, errorMessage) {
      const callbacks = takeCorrelated(message);
      callbacks.forEach(({ onError }) => onError?.(errorMessage));
      return !callbacks.some(({ onResponse }) => onResponse);
    },
  };
}

/** A unique id; `crypto.randomUUID` is not available without TLS. */
export function newId() {
  const random = crypto.getRandomValues(new Uint32Array(3));
  return `page-${[...random].map((part) => part.toString(36)).join("")}`;
}
