// Messages as rows of the log: sender, action, time and content.
import { collapsible, el } from "../docs/dom.js";
import { jsonView } from "../docs/json.js";
import { capabilityText } from "./capability.js";
import { displayName, displayNames, escapedJson, textView, timeView, valueView } from "./text.js";

/** Reasoning texts up to this length are shown in full. */
const MAX_INLINE_REASONING = 300;

/** The row of a message. */
export function messageRow(message) {
  const { kind, payload } = message;
  if (kind === "chat") return row("chat", message, [], textView(payload?.text));
  if (kind === "mcp/request") return requestRow(message);
  if (kind === "mcp/response") return responseRow(message);
  if (kind.startsWith("reasoning/")) return reasoningRow(message);
  return lineRow(message);
}

/** A note of the page itself. */
export function noteRow(text, tone = "") {
  return el("li", { class: `note ${tone}` }, text);
}

/** A message of this participant that the gateway rejected. */
export function errorRow({ ts, payload }) {
  const { error, message, attempted_kind: kind } = payload ?? {};
  return el(
    "li",
    { class: "message error" },
    el(
      "div",
      { class: "head" },
      el("span", { class: "pill bad" }, "Rejected"),
      kind && el("code", null, displayName(kind)),
      timeView(ts),
    ),
    el("p", { class: "problem" }, el("code", null, displayName(error)), " ", displayName(message)),
  );
}

/** The sender, its action and the time. */
export function messageHead({ from, to, ts, kind }, action) {
  const isAddressedChat = kind === "chat" && to?.length > 0;
  return el(
    "div",
    { class: "head" },
    el("strong", { class: "sender" }, displayName(from)),
    el("span", { class: "action" }, action, isAddressedChat && `to ${displayNames(to)}`),
    timeView(ts),
  );
}

/** The tool, resource or method of a request or proposal. */
export function subjectText(payload) {
  const { method, params } = payload ?? {};
  const name = params?.name ?? params?.uri;
  if (name === undefined) return displayName(method ?? "nothing");
  return method === "tools/call" ? displayName(name) : `${displayName(method)} ${displayName(name)}`;
}

function row(className, message, action, ...body) {
  return el("li", { class: `message ${className}` }, messageHead(message, action), body);
}

function requestRow(message) {
  const { to, payload } = message;
  const addressees = to?.length > 0 && ` of ${displayNames(to)}`;
  const input = payload?.method === "tools/call" ? payload.params?.arguments : payload?.params;
  const action = ["calls ", el("code", null, subjectText(payload)), addressees];
  return row("call", message, action, valueView("Arguments", input));
}

function responseRow(message) {
  const { context_of: context, payload } = message;
  const hasFailed = context?.outcome === "error";
  const subject = displayName(context?.name ?? context?.method ?? "a request");
  const requester = context?.from
    ? [" of ", el("span", { class: "sender" }, displayName(context.from))]
    : null;
  const [tone, outcome] = hasFailed ? ["bad", "error"] : ["good", "result"];
  const pill = el("span", { class: `pill ${tone}` }, outcome);
  const action = ["responds to ", el("code", null, subject), requester, " ", pill];
  return row("response", message, action, resultView(payload));
}

function resultView(payload) {
  if (payload?.error !== undefined) {
    const { message, ...rest } = payload.error ?? {};
    return [message !== undefined && textView(message), valueView("Error", rest)];
  }
  const result = payload?.result;
  const content = result?.content;
  const [onlyBlock] = Array.isArray(content) && content.length === 1 ? content : [];
  const isText = typeof onlyBlock?.text === "string";
  const shown = result?.structuredContent ?? (isText ? parseObjectOr(onlyBlock.text) : result);
  return valueView("Result", shown);
}

/** The JSON object or array in a string, or the text itself. */
function parseObjectOr(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : text;
  } catch {
    return text;
  }
}

const REASONING_ACTIONS = {
  start: "started reasoning",
  thought: "reasons",
  conclusion: "concluded reasoning",
  cancel: "canceled reasoning",
};

function reasoningRow(message) {
  const { kind, payload = {} } = message;
  const text = payload.message ?? payload.reasoning ?? payload.text ?? payload.input;
  const step = kind.slice("reasoning/".length);
  const action = Object.hasOwn(REASONING_ACTIONS, step)
    ? REASONING_ACTIONS[step]
    : displayName(kind);
  const isInline = typeof text === "string" && text.length <= MAX_INLINE_REASONING;
  if (isInline) return row("reasoning", message, action, textView(text));
  const details = text === undefined ? payload : text;
  return row("reasoning", message, action, valueView("Details", details));
}

/** The action of each kind of message that is shown as one line. */
const LINE_ACTIONS = {
  "mcp/reject": ({ context_of: context, payload }) => [
    "rejects ",
    proposalView(context),
    payload?.reason && `: ${displayName(payload.reason)}`,
  ],
  "mcp/withdraw": ({ context_of: context }) => ["withdraws ", proposalView(context)],
  "mcp/notification": ({ payload }) => [
    "notifies ",
    el("code", null, displayName(payload?.method)),
  ],
  "capability/grant": ({ payload }) => [
    `grants ${displayName(payload?.recipient)}: `,
    capabilitiesView(payload),
  ],
  "capability/revoke": ({ payload }) => [
    `revokes from ${displayName(payload?.recipient)}: `,
    capabilitiesView(payload),
  ],
  "capability/grant-ack": () => "acknowledged a grant",
  "chat/acknowledge": () => "acknowledged a message",
  "chat/cancel": () => "canceled a message",
  "stream/request": ({ payload }) =>
    `requests a stream: ${displayName(payload?.description ?? payload?.direction ?? "")}`,
  "stream/open": ({ payload }) =>
    `opens ${displayName(payload?.stream_id)} for ${displayName(payload?.owner)}`,
  "stream/close": ({ payload }) => `closes ${displayName(payload?.stream_id ?? "a stream")}`,
  "participant/pause": ({ to }) => `pauses ${displayNames(to)}`,
  "participant/resume": ({ to }) => `resumes ${displayNames(to)}`,
  "participant/shutdown": ({ to }) => `shuts ${displayNames(to)} down`,
  "participant/status": ({ payload }) => ["is ", displayName(payload?.status ?? "present")],
  "space/invite": ({ payload }) =>
    `invites ${displayName(payload?.participant_id ?? "a participant")}`,
  "space/kick": ({ payload }) =>
    `removes ${displayName(payload?.participant_id ?? "a participant")}`,
};

function proposalView(context) {
  const subject = displayName(context?.name ?? context?.method ?? "a proposal");
  const code = el("code", null, subject);
  return context?.proposer ? [code, ` of ${displayName(context.proposer)}`] : code;
}

function capabilitiesView(payload) {
  const list = Array.isArray(payload?.capabilities) ? payload.capabilities.slice(0, 20) : [];
  const text = list.map(capabilityText).join(", ");
  return el("code", null, text || displayName(payload?.grant_id ?? ""));
}

/** Any other message as one line; the payload of an unknown kind is collapsed. */
function lineRow(message) {
  const { kind, to, payload } = message;
  const action = Object.hasOwn(LINE_ACTIONS, kind) ? LINE_ACTIONS[kind](message) : null;
  const addressees = to?.length > 0 ? ` to ${displayNames(to)}` : "";
  const details = () => jsonView(escapedJson(payload), displayName(kind));
  return row(
    "plain",
    message,
    action ?? ["sends ", el("code", null, displayName(kind)), addressees],
    action === null &&
      escapedJson(payload) !== "{}" &&
      collapsible("Details", details, { class: "raw" }),
  );
}
