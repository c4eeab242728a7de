// Evaluates capabilities to decide which buttons are shown. The gateway makes the final decision;
// patterns that this page does not evaluate count as a match.
import { escapedJson } from "./text.js";

/** Whether a list of capabilities may allow a message; without `to`, it is for all participants. */
export function mayAllow(capabilities, kind, payload, to) {
  const fullKind = fullKindOf(kind, payload);
  return (Array.isArray(capabilities) ? capabilities : []).some((capability) => {
    if (typeof capability === "string")
      return matches(capability, kind) || matches(capability, fullKind);
    const { kind: kindPattern, payload: payloadPattern, to: addressees } = capability ?? {};
    if (kindPattern === undefined || !matchesAddressees(addressees, to)) return false;
    if (!(matches(kindPattern, kind) || matches(kindPattern, fullKind))) return false;
    return payloadPattern === undefined || matches(payloadPattern, payload);
  });
}

function matchesAddressees(pattern, to) {
  if (pattern === undefined) return true;
  return to?.length > 0 && to.every((name) => matches([pattern].flat(), name));
}

function fullKindOf(kind, payload) {
  const name = payload?.params?.name ?? payload?.params?.uri;
  return [kind, payload?.method, name].filter((part) => typeof part === "string").join(":");
}

function matches(pattern, value) {
  // A missing value matches no pattern.
  if (value === undefined) return false;
  if (Array.isArray(pattern)) return pattern.some((one) => matches(one, value));
  if (typeof pattern === "string") return matchesText(pattern, value);
  if (pattern === null || typeof pattern !== "object") return true;
  return Object.entries(pattern).every(
    ([key, part]) => key === "**" || key.startsWith("$") || matches(part, value?.[key]),
  );
}

/** `*` matches any sequence of characters here; the gateway may be stricter. */
function matchesText(pattern, value) {
  const isUnsupported = /^[!/]|[?[\]{}]/.test(pattern);
  if (isUnsupported || typeof value !== "string") return isUnsupported;
  const [first, ...rest] = pattern.split(/\*+/);
  if (rest.length === 0) return pattern === value;
  const last = rest.pop();
  if (!value.startsWith(first) || !value.endsWith(last)) return false;
  let position = first.length;
  for (const part of rest) {
    const found = value.indexOf(part, position);
    if (found < 0) return false;
    position = found + part.length;
  }
  return position <= value.length - last.length;
}

/** A capability as one line of text. */
export function capabilityText(capability) {
  if (typeof capability === "string") return escapedJson(capability).slice(1, -1);
  const { kind, payload, ...otherMembers } = capability ?? {};
  const { method, params, ...otherPayload } = payload ?? {};
  const { name, uri, ...otherParams } = params ?? {};
  const isPlain = [otherMembers, otherPayload, otherParams].every(
    (others) => Object.keys(others).length === 0,
  );
  const parts = [kind, method, name ?? uri].filter((part) => part !== undefined);
  const isText = parts.length > 0 && parts.every((part) => typeof part === "string");
  if (!isPlain || !isText) return escapedJson(capability);
  return parts.map((part) => escapedJson(part).slice(1, -1)).join(" ");
}
