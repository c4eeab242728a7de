// The identity of the user, and requests on its behalf. The token is kept in memory only.
import { parseExact } from "../docs/json.js";
import { BASE } from "./url.js";

/** A caller without a token and without a name. */
export function newCaller() {
  let token = "";
  let name = "";
  return {
    /** Whether the gateway requires a token. */
    requiresToken: document.querySelector("meta[name=toolpost-token]")?.content === "needed",
    hasToken: () => token !== "",
    hasIdentity: () => token !== "" || name !== "",
    name: () => name,
    set(identity) {
      token = (identity.token ?? "").trim();
      name = token ? "" : (identity.name ?? "").trim();
    },
    /** The first frame of a room connection. */
    joinFrame(room) {
      const identity = token ? { token } : { participantId: name };
      return JSON.stringify({ type: "join", protocol: "mew/v0.4", space: room, ...identity });
    },
    /** The JSON response of the gateway; throws an error with the HTTP status. */
    async request(path, body) {
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      if (body) headers["Content-Type"] = "application/json";
      const response = await fetch(new URL(path, BASE), {
        method: body ? "POST" : "GET",
        headers,
        body: body && JSON.stringify(body),
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
      });
      const content = await response.text().then(parseExact).catch(() => null);
      if (response.ok) return content;
      const message = content?.detail ?? `the gateway returned ${response.status}`;
      throw Object.assign(new Error(message), { status: response.status });
    },
  };
}
