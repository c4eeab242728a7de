// What somebody may, as far as a page has to know: whether a button is worth showing. The gateway
// decides. Where this page cannot tell, the answer is yes.
import { json } from "./text.js";

/** Whether something in a list of capabilities could cover a message. */
export function could(capabilities, kind, payload) {
  const full = fullKind(kind, payload);
  return (Array.isArray(capabilities) ? capabilities : []).some((capability) => {
    if (typeof capability === "string") return fits(capability, kind) || fits(capability, full);
    const { kind: kinds, payload: wanted } = capability ?? {};
    if (kinds === undefined || !(fits(kinds, kind) || fits(kinds, full))) return false;
    return wanted === undefined || fits(wanted, payload);
  });
}

function fullKind(kind, payload) {
  const name = payload?.params?.name ?? payload?.params?.uri;
  return [kind, payload?.method, name].filter((part) => typeof part === "string").join(":");
}

function fits(pattern, value) {
  // What is missing fits nothing.
  if (value === undefined) return false;
  if (Array.isArray(pattern)) return pattern.some((one) => fits(one, value));
  if (typeof pattern === "string") return fitsText(pattern, value);
  if (pattern === null || typeof pattern !== "object") return true;
  return Object.entries(pattern).every(
    ([key, part]) => key === "**" || key.startsWith("$") || fits(part, value?.[key]),
  );
}

/** `*` is any run of characters here; the gateway may be stricter. */
function fitsText(pattern, value) {
  const isBeyond = /^[!/]|[?[\]{}]/.test(pattern);
  if (isBeyond || typeof value !== "string") return isBeyond;
  const [first, ...rest] = pattern.split(/\*+/);
  if (rest.length === 0) return pattern === value;
  const last = rest.pop();
  if (!value.startsWith(first) || !value.endsWith(last)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = value.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= value.length - last.length;
}

/** A capability in a line. */
export function described(capability) {
  if (typeof capability === "string") return json(capability).slice(1, -1);
  const { kind, payload, ...rest } = capability ?? {};
  const { method, params, ...more } = payload ?? {};
  const { name, uri, ...others } = params ?? {};
  const isPlain = [rest, more, others].every((it) => Object.keys(it).length === 0);
  const parts = [kind, method, name ?? uri].filter((part) => part !== undefined);
  const isText = parts.length > 0 && parts.every((part) => typeof part === "string");
  if (!isPlain || !isText) return json(capability);
  return parts.map((part) => json(part).slice(1, -1)).join(" ");
}
