// npm's @modelcontextprotocol/sdk 1.x, which knows only the versions with a handshake.

import { answers, capabilities, load, serve } from "./jobs.mjs";

const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load(
  "@modelcontextprotocol/sdk/client/streamableHttp.js",
);

const types = load("@modelcontextprotocol/sdk/types.js");
const asked = [
  [types.ElicitRequestSchema, "elicitation/create"],
  [types.CreateMessageRequestSchema, "sampling/createMessage"],
  [types.ListRootsRequestSchema, "roots/list"],
];

await serve("@modelcontextprotocol/sdk", async ({ url, command }) => {
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  let version;
  const tell = transport.setProtocolVersion?.bind(transport);
  // The client keeps the version to itself, but tells its transport.
  transport.setProtocolVersion = (chosen) => tell?.((version = chosen)) ?? (version = chosen);
  const client = new Client({ name: "sdk1", version: "1.0" }, { capabilities });
  for (const [schema, method] of asked) client.setRequestHandler(schema, answers[method]);
  await client.connect(transport);
  return { client, protocol: () => version };
});
