// The npm package @modelcontextprotocol/sdk 1.x, which supports only protocol versions with a handshake.

import { capabilities, load, requestHandlers, runJobs } from "./jobs.mjs";

const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load(
  "@modelcontextprotocol/sdk/client/streamableHttp.js",
);

const types = load("@modelcontextprotocol/sdk/types.js");
const requestSchemas = [
  [types.ElicitRequestSchema, "elicitation/create"],
  [types.CreateMessageRequestSchema, "sampling/createMessage"],
  [types.ListRootsRequestSchema, "roots/list"],
];

await runJobs("@modelcontextprotocol/sdk", async ({ url, command }) => {
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  let version;
  const setVersion = transport.setProtocolVersion?.bind(transport);
  // The client does not expose the negotiated version, but sets it on its transport.
  transport.setProtocolVersion = (negotiated) =>
    setVersion?.((version = negotiated)) ?? (version = negotiated);
  const client = new Client({ name: "sdk1", version: "1.0" }, { capabilities });
  for (const [schema, method] of requestSchemas)
    client.setRequestHandler(schema, requestHandlers[method]);
  await client.connect(transport);
  return { client, protocol: () => version };
});
