// From what was typed to a request, and to the same request for a shell.
import { exact } from "./json.js";
import { follow } from "./model.js";

export const ENVELOPE = "application/vnd.toolpost.envelope+json";
const EVENTS = "text/event-stream";
/** Options of the door, which stand in the query beside the input. */
const OPTIONS = new Set(["envelope", "timeout"]);

/** The gateway's own address, whatever stands before it. */
export const BASE = new URL("./", document.baseURI);

/** The request of a draft, or an error with the words for whoever typed it. */
export function build(api, operation, draft) {
  const headers = { Accept: accept(operation, draft) };
  if (draft.timeout) headers["Request-Timeout"] = draft.timeout;
  const url = new URL(operation.path.slice(1), BASE);
  if (draft.method === "GET") {
    url.search = queryOf(api, operation, draft.text);
    return { method: "GET", url, headers };
  }
  const body = draft.text.trim();
  if (body) check(body);
  headers["Content-Type"] = "application/json";
  return { method: "POST", url, headers, body: body || "{}" };
}

function accept({ kind }, { form }) {
  const wanted = form === "envelope" ? ENVELOPE : "application/json";
  if (kind !== "subscription") return wanted;
  return form === "envelope" ? `${EVENTS}, ${ENVELOPE};q=0.5` : EVENTS;
}

function check(text) {
  try {
    return exact(text);
  } catch (error) {
    throw new Error(`The input is not JSON: ${error.message}`);
  }
}

/** The input in a query, as the document says that each parameter stands there. */
function queryOf(api, operation, text) {
  const input = text.trim() ? check(text) : {};
  const parameters = (operation.get.parameters ?? []).map((parameter) => follow(api, parameter));
  const inQuery = new Map(
    parameters
      .filter(({ in: place }) => place === "query")
      .map((parameter) => [parameter.name, parameter]),
  );
  const schema = follow(api, operation.input?.schema);
  const isWhole =
    inQuery.get("input")?.content && !Object.hasOwn(schema?.properties ?? {}, "input");
  const query = new URLSearchParams();
  if (isWhole) {
    query.set("input", JSON.stringify(input));
    return query.toString();
  }
  if (input === null || typeof input !== "object" || Array.isArray(input))
    throw new Error("A query holds the properties of an object.");
  for (const [name, value] of Object.entries(input)) {
    const isOption = OPTIONS.has(name) && !Object.hasOwn(schema?.properties ?? {}, name);
    if (!inQuery.has(name) || isOption)
      throw new Error(`A query has no place for “${name}”; POST has.`);
    add(query, inQuery.get(name), value);
  }
  return query.toString();
}

function add(query, { name, content }, value) {
  const text = (item) => (typeof item === "string" ? item : JSON.stringify(item));
  if (content) query.append(name, JSON.stringify(value));
  else if (value === null)
    throw new Error(`A query cannot say null for “${name}”; leave it out, or POST.`);
  else for (const item of [value].flat()) query.append(name, text(item));
}

/** The same request as a line for a shell. A token stays out of it, since lines are kept. */
export function curl(request, operation, asksToken) {
  const parts = [
    operation.kind === "subscription" ? "curl -sN" : "curl -s",
    quote(request.url.href),
  ];
  if (asksToken) parts.push('-H "Authorization: Bearer $TOOLPOST_TOKEN"');
  const isPlain = request.headers.Accept === "application/json";
  if (
    !isPlain &&
    !(
      request.method === "GET" &&
      operation.kind === "subscription" &&
      request.headers.Accept === EVENTS
    )
  ) {
    parts.push(`-H ${quote(`Accept: ${request.headers.Accept}`)}`);
  }
  if (request.headers["Request-Timeout"])
    parts.push(`-H ${quote(`Request-Timeout: ${request.headers["Request-Timeout"]}`)}`);
  if (request.body !== undefined) parts.push(`--json ${quote(compact(request.body))}`);
  const [command, address, ...rest] = parts;
  return [`${command} ${address}`, ...rest].join(" \\\n  ");
}

function compact(text) {
  return JSON.stringify(exact(text));
}

function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
