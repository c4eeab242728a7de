// The messages that were sent and may be rejected.

const MAX_PENDING = 500;

/** Callbacks by the id of the message, for the error message if the gateway rejects it. */
export function newPendingRequests() {
  const pending = new Map();
  return {
    add(id, onError) {
      pending.set(id, onError);
      if (pending.size > MAX_PENDING) pending.delete(pending.keys().next().value);
    },
    reject(message, errorMessage) {
      const ids = Array.isArray(message.correlation_id) ? message.correlation_id : [];
      for (const id of ids) {
        pending.get(id)?.(errorMessage);
        pending.delete(id);
      }
    },
  };
}

/** A unique id; `crypto.randomUUID` is not available without TLS. */
export function newId() {
  const random = crypto.getRandomValues(new Uint32Array(3));
  return `page-${[...random].map((part) => part.toString(36)).join("")}`;
}
