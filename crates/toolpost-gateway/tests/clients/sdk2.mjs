// The npm package @modelcontextprotocol/client 2.x, for both protocol generations.

import { capabilities, load, requestHandlers, runJobs } from "./jobs.mjs";

const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");

await runJobs("@modelcontextprotocol/client", async ({ url, command, era: generation }) => {
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  const versionNegotiation = { mode: generation === "modern" ? "auto" : "legacy" };
  const client = new Client({ name: "sdk2", version: "1.0" }, { versionNegotiation, capabilities });
  for (const method in requestHandlers) client.setRequestHandler(method, requestHandlers[method]);
  await client.connect(transport);
  return { client, protocol: () => client.getNegotiatedProtocolVersion() };
});
