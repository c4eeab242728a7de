// The room that the address names, and the token that it may bring.

/** The gateway's own address, whatever stands before it. */
export const BASE = new URL("./", document.baseURI);

/** Reads what stands behind the `#`. A token does not stay there, nor in the browser's history. */
export function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const [room, token] = [asked.get("room") ?? "", asked.get("token") ?? ""];
  const plain = room ? addressOf(room) : location.pathname;
  if (asked.has("token")) history.replaceState(null, "", plain);
  return { room, token };
}

export function addressOf(room) {
  return `#${new URLSearchParams({ room })}`;
}
