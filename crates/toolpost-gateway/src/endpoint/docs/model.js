// Converts an OpenAPI document to the operations that the page shows.

/** The operations and the metadata of an OpenAPI document. */
export function parseDocument(api) {
  const operations = [];
  for (const [path, item] of Object.entries(api.paths ?? {})) {
    const operation = parseOperation(path, item);
    if (operation) operations.push(operation);
  }
  operations.sort((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name));
  return {
    api,
    title: api.info?.title ?? "Operations",
    version: api.info?.version ?? "",
    description: api.info?.description ?? "",
    requiresToken: Object.keys(api.components?.securitySchemes ?? {}).length > 0,
    operations,
    byId: new Map(operations.map((operation) => [operation.id, operation])),
  };
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function parseOperation(path, item) {
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
    output: outputSchema(call, extension),
  };
}

/** The schema of the data; OpenAPI has no schema for the events of a stream. */
function outputSchema(call, extension) {
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
  const contentTypes = Object.keys(item.post?.responses?.["200"]?.content ?? {});
  if (contentTypes.some((type) => type.startsWith("text/event-stream"))) return "subscription";
  return item.get ? "query" : "mutation";
}

/** The value if it is an array, or else an empty array: schemas are not validated before. */
export function arrayOrEmpty(value) {
  return Array.isArray(value) ? value : [];
}

/** The value if it is an object, or else an empty object. */
export function objectOrEmpty(value) {
  return value && typeof value === "object" && !Array.isArray(value) ? value : {};
}

/** Groups operations by namespace and keeps their order. */
export function byNamespace(operations) {
  const groups = new Map();
  for (const operation of operations) {
    if (!groups.has(operation.namespace)) groups.set(operation.namespace, []);
    groups.get(operation.namespace).push(operation);
  }
  return [...groups];
}

const ROOT_SCHEMA = Symbol("the schema that `#` refers to");

/** The document with the definitions of a schema, so that the references of the schema resolve. */
export function withLocalDefs(api, schema) {
  const localDefs = schema && typeof schema === "object" ? schema.$defs : undefined;
  return { ...api, ...(localDefs && { $defs: localDefs }), [ROOT_SCHEMA]: schema };
}

/** The target of a reference, or the value itself; `undefined` if the reference is dangling. */
export function resolveRef(api, value) {
  let hops = 0;
  while (value && typeof value === "object" && typeof value.$ref === "string" && hops < 32) {
    const { $ref, ...siblings } = value;
    const target = resolvePointer(api, $ref);
    if (target === undefined) return undefined;
    const isObject = target !== null && typeof target === "object";
    value = isObject ? { ...target, ...siblings } : target;
    hops += 1;
  }
  return value;
}

function resolvePointer(api, reference) {
  if (reference === "#") return api[ROOT_SCHEMA];
  if (!reference.startsWith("#")) return undefined;
  const parts = decode(reference.slice(1)).split("/").slice(1);
  return parts.reduce((parent, part) => {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    const hasKey = parent !== null && typeof parent === "object" && Object.hasOwn(parent, key);
    return hasKey ? parent[key] : undefined;
  }, api);
}
