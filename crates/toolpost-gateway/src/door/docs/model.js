// From the document to the operations that are shown.

/** What the page knows of a gateway. */
export function read(api) {
  const operations = [];
  for (const [path, item] of Object.entries(api.paths ?? {})) {
    const operation = readOperation(path, item);
    if (operation) operations.push(operation);
  }
  operations.sort((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name));
  return {
    api,
    title: api.info?.title ?? "Operations",
    version: api.info?.version ?? "",
    description: api.info?.description ?? "",
    asksToken: Object.keys(api.components?.securitySchemes ?? {}).length > 0,
    operations,
    byId: new Map(operations.map((operation) => [operation.id, operation])),
  };
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function readOperation(path, item) {
  const call = item?.post ?? item?.get;
  if (!call) return null;
  const extension = item.post?.["x-toolpost-operation"] ?? {};
  const [, namespace = "", name = path] = /^\/api\/([^/]+)\/([^/]+)$/.exec(path)?.map(decode) ?? [];
  return {
    id: `${namespace}.${name}`,
    namespace,
    name,
    path,
    kind: extension.type ?? extension.kind ?? kindOf(item),
    title: call.summary ?? extension.title ?? "",
    description: call.description ?? extension.description ?? "",
    tags: (extension.tags ?? call.tags ?? []).filter((tag) => tag !== namespace),
    version: extension.version ?? "",
    deprecated: call.deprecated === true,
    call,
    get: item.get ?? null,
    extension,
    input: call.requestBody?.content?.["application/json"],
    output: outputOf(call, extension),
  };
}

/** The schema of the data; a stream of events is only text to the document. */
function outputOf(call, extension) {
  return call.responses?.["200"]?.content?.["application/json"]?.schema ?? extension.outputSchema;
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function kindOf(item) {
  const offered = Object.keys(item.post?.responses?.["200"]?.content ?? {});
  if (offered.some((type) => type.startsWith("text/event-stream"))) return "subscription";
  return item.get ? "query" : "mutation";
}

/** A list, if it is one: a schema may say anything. */
export function listOf(value) {
  return Array.isArray(value) ? value : [];
}

/** An object with names, if it is one. */
export function recordOf(value) {
  return value && typeof value === "object" && !Array.isArray(value) ? value : {};
}

/** The operations of each namespace, in their order. */
export function byNamespace(operations) {
  const groups = new Map();
  for (const operation of operations) {
    if (!groups.has(operation.namespace)) groups.set(operation.namespace, []);
    groups.get(operation.namespace).push(operation);
  }
  return [...groups];
}

const WHOLE = Symbol("the schema that refers to itself");

/** A document in which the references of a schema that brings its own definitions are found. */
export function around(api, schema) {
  const own = schema && typeof schema === "object" ? schema.$defs : undefined;
  return { ...api, ...(own && { $defs: own }), [WHOLE]: schema };
}

/** What a reference points at, or the thing itself; `undefined` where there is nothing. */
export function follow(api, thing) {
  let hops = 0;
  while (thing && typeof thing === "object" && typeof thing.$ref === "string" && hops < 32) {
    const { $ref, ...siblings } = thing;
    const target = at(api, $ref);
    if (target === undefined) return undefined;
    const isObject = target !== null && typeof target === "object";
    thing = isObject ? { ...target, ...siblings } : target;
    hops += 1;
  }
  return thing;
}

function at(api, reference) {
  if (reference === "#") return api[WHOLE];
  if (!reference.startsWith("#")) return undefined;
  const parts = decode(reference.slice(1)).split("/").slice(1);
  return parts.reduce((place, part) => {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    const isThere = place !== null && typeof place === "object" && Object.hasOwn(place, key);
    return isThere ? place[key] : undefined;
  }, api);
}
