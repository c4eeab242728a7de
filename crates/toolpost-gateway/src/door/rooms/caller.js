// Who is here, and requests in his name. The token is in the memory of the page and nowhere else.
import { exact } from "../docs/json.js";
import { BASE } from "./address.js";

/** Somebody who has said nothing yet. */
export function newCaller() {
  let token = "";
  let name = "";
  return {
    /** Whether the gateway wants a token from everybody. */
    asksToken: document.querySelector("meta[name=toolpost-token]")?.content === "needed",
    hasToken: () => token !== "",
    isKnown: () => token !== "" || name !== "",
    name: () => name,
    set(said) {
      token = (said.token ?? "").trim();
      name = token ? "" : (said.name ?? "").trim();
    },
    /** What he says first in a room. */
    join(room) {
      const who = token ? { token } : { participantId: name };
      return JSON.stringify({ type: "join", protocol: "mew/v0.4", space: room, ...who });
    },
    /** What the gateway answers, or an error with its status and words for the reader. */
    async ask(path, body) {
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
      const answer = await response.text().then(exact).catch(() => null);
      if (response.ok) return answer;
      const words = answer?.detail ?? `the gateway answered ${response.status}`;
      throw Object.assign(new Error(words), { status: response.status });
    },
  };
}
