// The room and the token in the URL fragment.

/** The base URL of the gateway, with any path prefix. */
export const BASE = new URL("./", document.baseURI);

/** Reads the URL fragment. A token is removed from the URL and from the browser's history. */
export function readHash() {
  const params = new URLSearchParams(location.hash.slice(1));
  const [room, token] = [params.get("room") ?? "", params.get("token") ?? ""];
  const urlWithoutToken = room ? roomHash(room) : location.pathname;
  if (params.has("token")) history.replaceState(null, "", urlWithoutToken);
  return { room, token };
}

export function roomHash(room) {
  return `#${new URLSearchParams({ room })}`;
}
