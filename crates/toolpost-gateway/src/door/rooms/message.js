// Messages as rows: who, when, what.
import { el, fold } from "../docs/dom.js";
import { jsonView } from "../docs/json.js";
import { described } from "./capability.js";
import { json, named, names, said, value, when } from "./text.js";

/** Thoughts of so many characters are read at a glance. */
const SHORT = 300;

/** The row of a message. */
export function rowOf(message) {
  const { kind, payload } = message;
  if (kind === "chat") return row("chat", message, [], said(payload?.text));
  if (kind === "mcp/request") return requestRow(message);
  if (kind === "mcp/response") return responseRow(message);
  if (kind.startsWith("reasoning/")) return reasoningRow(message);
  return lineRow(message);
}

/** A line of the page itself. */
export function noteRow(words, tone = "") {
  return el("li", { class: `note ${tone}` }, words);
}

/** Something that was refused, for the one who tried it. */
export function errorRow({ ts, payload }) {
  const { error, message, attempted_kind: kind } = payload ?? {};
  return el(
    "li",
    { class: "message error" },
    el(
      "div",
      { class: "head" },
      el("span", { class: "pill bad" }, "Refused"),
      kind && el("code", null, named(kind)),
      when(ts),
    ),
    el("p", { class: "problem" }, el("code", null, named(error)), " ", named(message)),
  );
}

/** Who, what he does, and when. */
export function headOf({ from, to, ts, kind }, does) {
  const isChat = kind === "chat" && to?.length > 0;
  return el(
    "div",
    { class: "head" },
    el("strong", { class: "who" }, named(from)),
    el("span", { class: "does" }, does, isChat && `to ${names(to)}`),
    when(ts),
  );
}

/** What a request or a proposal is about, in a word. */
export function subject(payload) {
  const { method, params } = payload ?? {};
  const name = params?.name ?? params?.uri;
  if (name === undefined) return named(method ?? "nothing");
  return method === "tools/call" ? named(name) : `${named(method)} ${named(name)}`;
}

function row(name, message, does, ...body) {
  return el("li", { class: `message ${name}` }, headOf(message, does), body);
}

function requestRow(message) {
  const { to, payload } = message;
  const whom = to?.length > 0 && ` of ${names(to)}`;
  const input = payload?.method === "tools/call" ? payload.params?.arguments : payload?.params;
  const does = ["calls ", el("code", null, subject(payload)), whom];
  return row("call", message, does, value("Arguments", input, "Arguments"));
}

function responseRow(message) {
  const { context_of: context, payload } = message;
  const hasFailed = context?.outcome === "error";
  const what = named(context?.name ?? context?.method ?? "something");
  const whose = context?.from ? [" of ", el("span", { class: "who" }, named(context.from))] : null;
  const [tone, outcome] = hasFailed ? ["bad", "error"] : ["good", "result"];
  const pill = el("span", { class: `pill ${tone}` }, outcome);
  const does = ["answers ", el("code", null, what), whose, " ", pill];
  return row("reply", message, does, resultView(payload));
}

function resultView(payload) {
  if (payload?.error !== undefined) {
    const { message, ...rest } = payload.error ?? {};
    return [message !== undefined && said(message), value("Error", rest, "Error")];
  }
  const result = payload?.result;
  const content = result?.content;
  const [only] = Array.isArray(content) && content.length === 1 ? content : [];
  const isText = typeof only?.text === "string";
  const shown = result?.structuredContent ?? (isText ? parsed(only.text) : result);
  return value("Result", shown, "Result");
}

/** What a tool says is often JSON once more. */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : text;
  } catch {
    return text;
  }
}

const THINKS = {
  start: "begins to think",
  thought: "thinks",
  conclusion: "has thought",
  cancel: "stops the thinking",
};

function reasoningRow(message) {
  const { kind, payload = {} } = message;
  const words = payload.message ?? payload.reasoning ?? payload.text ?? payload.input;
  const step = kind.slice("reasoning/".length);
  const does = Object.hasOwn(THINKS, step) ? THINKS[step] : named(kind);
  const isShort = typeof words === "string" && words.length <= SHORT;
  if (isShort) return row("thought", message, does, said(words));
  const rest = words === undefined ? payload : words;
  return row("thought", message, does, value("What", rest, "What"));
}

const LINES = {
  "mcp/reject": ({ context_of: context, payload }) => [
    "rejects ",
    aboutOf(context),
    payload?.reason && `: ${named(payload.reason)}`,
  ],
  "mcp/withdraw": ({ context_of: context }) => ["withdraws ", aboutOf(context)],
  "mcp/notification": ({ payload }) => ["notifies ", el("code", null, named(payload?.method))],
  "capability/grant": ({ payload }) => [`allows ${named(payload?.recipient)}: `, mayOf(payload)],
  "capability/revoke": ({ payload }) => [
    `takes from ${named(payload?.recipient)}: `,
    mayOf(payload),
  ],
  "capability/grant-ack": () => "has taken note of what is allowed",
  "chat/acknowledge": () => "has read it",
  "chat/cancel": () => "takes it back",
  "stream/request": ({ payload }) =>
    `asks for a stream: ${named(payload?.description ?? payload?.direction ?? "")}`,
  "stream/open": ({ payload }) => `opens ${named(payload?.stream_id)} for ${named(payload?.owner)}`,
  "stream/close": ({ payload }) => `closes ${named(payload?.stream_id ?? "a stream")}`,
  "participant/pause": ({ to }) => `pauses ${names(to)}`,
  "participant/resume": ({ to }) => `lets ${names(to)} go on`,
  "participant/shutdown": ({ to }) => `shuts ${names(to)} down`,
  "participant/status": ({ payload }) => ["is ", named(payload?.status ?? "there")],
  "space/invite": ({ payload }) => `invites ${named(payload?.participant_id ?? "somebody")}`,
  "space/kick": ({ payload }) => `sends ${named(payload?.participant_id ?? "somebody")} away`,
};

function aboutOf(context) {
  const what = el("code", null, named(context?.name ?? context?.method ?? "a proposal"));
  return context?.proposer ? [what, ` of ${named(context.proposer)}`] : what;
}

function mayOf(payload) {
  const list = Array.isArray(payload?.capabilities) ? payload.capabilities.slice(0, 20) : [];
  return el("code", null, list.map(described).join(", ") || named(payload?.grant_id ?? ""));
}

/** Everything else, in a line; what it brings is behind a fold where the line does not say it. */
function lineRow(message) {
  const { kind, to, payload } = message;
  const line = Object.hasOwn(LINES, kind) ? LINES[kind](message) : null;
  const whom = to?.length > 0 ? ` to ${names(to)}` : "";
  const rest = () => jsonView(json(payload), named(kind));
  return row(
    "plain",
    message,
    line ?? ["sends ", el("code", null, named(kind)), whom],
    line === null && json(payload) !== "{}" && fold("What", rest, { class: "raw" }),
  );
}
