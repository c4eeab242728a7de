// Builds the request of a draft, and the equivalent curl command.
import { parseExact } from "./json.js";
import { resolveRef } from "./model.js";

const ENVELOPE = "application/vnd.toolpost.envelope+json";
const EVENTS = "text/event-stream";
/** Query parameters of the endpoint that are not part of the input. */
const OPTIONS = new Set(["envelope", "timeout"]);

/** The base URL of the gateway, with any path prefix. */
export const BASE = new URL("./", document.baseURI);

/** The request of a draft; throws an error with a message for the user. */
export function buildRequest(api, operation, draft) {
  const headers = { Accept: acceptHeader(operation, draft) };
  if (draft.timeout) headers["Request-Timeout"] = draft.timeout;
  const url = new URL(operation.path.slice(1), BASE);
  if (draft.method === "GET") {
    url.search = queryString(api, operation, draft.text);
    return { method: "GET", url, headers };
  }
  const body = draft.text.trim();
  if (body) parseInput(body);
  headers["Content-Type"] = "application/json";
  return { method: "POST", url, headers, body: body || "{}" };
}

function acceptHeader({ kind }, { format }) {
  const contentType = format === "envelope" ? ENVELOPE : "application/json";
  if (kind !== "subscription") return contentType;
  return format === "envelope" ? `${EVENTS}, ${ENVELOPE};q=0.5` : EVENTS;
}

function parseInput(text) {
  try {
    return parseExact(text);
  } catch (error) {
    throw new Error(`The input is not JSON: ${error.message}`);
  }
}

/** The input as a query string, encoded as the document declares for each parameter. */
function queryString(api, operation, text) {
  const input = text.trim() ? parseInput(text) : {};
  const parameters = (operation.get.parameters ?? []).map((parameter) =>
    resolveRef(api, parameter),
  );
  const queryParameters = new Map(
    parameters
      .filter(({ in: location }) => location === "query")
      .map((parameter) => [parameter.name, parameter]),
  );
  const schema = resolveRef(api, operation.input?.schema);
  const isSingleParameter =
    queryParameters.get("input")?.content && !Object.hasOwn(schema?.properties ?? {}, "input");
  const query = new URLSearchParams();
  if (isSingleParameter) {
    query.set("input", JSON.stringify(input));
    return query.toString();
  }
  if (input === null || typeof input !== "object" || Array.isArray(input))
    throw new Error("GET requires an object as input.");
  for (const [name, value] of Object.entries(input)) {
    const isOption = OPTIONS.has(name) && !Object.hasOwn(schema?.properties ?? {}, name);
    if (!queryParameters.has(name) || isOption)
      throw new Error(`“${name}” cannot be sent in a query; use POST.`);
    appendParameter(query, queryParameters.get(name), value);
  }
  return query.toString();
}

function appendParameter(query, { name, content }, value) {
  const text = (item) => (typeof item === "string" ? item : JSON.stringify(item));
  if (content) query.append(name, JSON.stringify(value));
  else if (value === null)
    throw new Error(`GET cannot send null for “${name}”; omit it, or use POST.`);
  else for (const item of [value].flat()) query.append(name, text(item));
}

/** The request as a curl command. The token is a variable, because shells store their history. */
export function curlCommand(request, operation, requiresToken) {
  const parts = [
    operation.kind === "subscription" ? "curl -sN" : "curl -s",
    quote(request.url.href),
  ];
  if (requiresToken) parts.push('-H "Authorization: Bearer $TOOLPOST_TOKEN"');
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
  const [command, url, ...rest] = parts;
  return [`${command} ${url}`, ...rest].join(" \\\n  ");
}

function compact(text) {
  return JSON.stringify(parseExact(text));
}

function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
