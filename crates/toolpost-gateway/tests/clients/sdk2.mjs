// npm's @modelcontextprotocol/client 2.x, in either era.

import { answers, capabilities, load, serve } from "./jobs.mjs";

const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");

await serve("@modelcontextprotocol/client", async ({ url, command, era }) => {
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  const versionNegotiation = { mode: era === "modern" ? "auto" : "legacy" };
  const client = new Client({ name: "sdk2", version: "1.0" }, { versionNegotiation, capabilities });
  for (const method in answers) client.setRequestHandler(method, answers[method]);
  await client.connect(transport);
  return { client, protocol: () => client.getNegotiatedProtocolVersion() };
});
