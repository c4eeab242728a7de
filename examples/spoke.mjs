// A spoke `js` without packages: node examples/spoke.mjs [url]; Node 20 needs --experimental-websocket.
const { argv, env } = process;
const socket = new WebSocket(new URL("/hub", argv[2] ?? env.TOOLPOST_URL ?? "ws://127.0.0.1:7411"));
const send = (type, id, payload) => socket.send(JSON.stringify({ type, id, payload }));
const sendEvent = (type, requestId, rest) => send(type, requestId, { requestId, ...rest });
const take = (map, id, value = map.get(id)) => (map.delete(id), value);
const operations = [
  { namespace: "math", name: "double", type: "query", async *run(n, id) {
    yield (await call("demo.add", { a: n, b: n }, id)).data.sum; // calls back into the hub
  } },
  { namespace: "clock", name: "ticks", type: "subscription", async *run(count) {
    for (let tick = 1; tick <= count; tick++, await new Promise((resolve) => setTimeout(resolve, 10))) yield tick;
  } },
];
const pending = new Map(); // outgoing calls: id → [resolve, reject]
const call = (operationId, input, parentRequestId, id = crypto.randomUUID()) => new Promise((...settle) => {
  pending.set(id, settle);
  sendEvent("call.requested", id, { operationId, input, parentRequestId });
});
const running = new Map(); // incoming calls: id → async generator of the results
const serve = async (id, { operationId, input }, meta = { source: "local", operationId, timestamp: Date.now() }) => {
  const operation = operations.find(({ namespace, name }) => operationId === `${namespace}.${name}`);
  running.set(id, operation.run(input, id));
  for await (const data of running.get(id)) if (running.has(id)) sendEvent("call.responded", id, { output: { data, meta } });
  if (take(running, id)) sendEvent("call.completed", id);
};
const fail = (id, message) => sendEvent("call.error", id, { code: "EXECUTION_ERROR", message, retryable: false });
const events = {
  "call.requested": (id, request) => serve(id, request).catch((error) => fail(id, String(error), take(running, id))),
  "call.aborted": (id) => take(running, id)?.return(),
  "call.responded": (id, { output }) => take(pending, id)?.[0](output),
  "call.error": (id, { code, message }) => take(pending, id)?.[1](`${code}: ${message}`),
};
socket.onmessage = ({ data }, { type, id, payload } = JSON.parse(data)) => events[type]?.(id, payload);
socket.onclose = ({ code, reason }) => (console.error(`closed: ${code} ${reason}`), process.exit(code === 1000 ? 0 : 1));
socket.onopen = async () => {
  if (env.TOOLPOST_TOKEN) send("__auth", "", { token: env.TOOLPOST_TOKEN });
  console.log(...(await call("hub.register", { name: "js", operations })).data.registered);
};
