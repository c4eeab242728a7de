// The job runner of the Node clients. A job is a line on standard input:
//
//   {"url": … | "command": […], "era": "legacy" | "modern", "calls": [{"name", "arguments"}]}
//
// and its result is a line on standard output:
//
//   {"version", "protocol", "tools": [names], "answers": [{"result"} | {"thrown"}]} or {"failed"}
//
// where `version` is that of the client package and `era` is the protocol generation. A second argument
// is the folder of a package that connects the client to the server, whose version is then reported.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

/// Loads packages from the folder that is the first argument.
export const load = createRequire(`${process.argv[2]}/`);

// Standard output is for results only; the output of libraries goes to standard error.
console.log = console.info = console.debug = console.error;

/// The capabilities of a client, and its handlers for server requests.
export const capabilities = { elicitation: {}, sampling: {}, roots: {} };

export const requestHandlers = {
  "elicitation/create": ({ params }) => {
    const fields = Object.entries(params.requestedSchema.properties);
    const texts = fields.filter(([, field]) => field.type === "string");
    return { action: "accept", content: Object.fromEntries(texts.map(([name]) => [name, "blue"])) };
  },
  "sampling/createMessage": () => ({
    role: "assistant",
    content: { type: "text", text: "Paris" },
    model: "none",
  }),
  "roots/list": () => ({ roots: [{ uri: "file:///there" }] }),
};

/// Connects with `connect(job)`, which returns `{client, protocol()}`; lists the tools and makes each call.
async function run(job, connect) {
  const { client, protocol } = await connect(job);
  try {
    const tools = await listTools(client);
    const results = [];
    for (const call of job.calls) {
      results.push(
        await client.callTool(call).then(
          (result) => ({ result }),
          (error) => ({ thrown: String(error?.message ?? error) }),
        ),
      );
    }
    return { protocol: protocol(), tools, answers: results };
  } finally {
    await client.close();
  }
}

async function listTools(client) {
  const names = [];
  let cursor;
  do {
    const page = await client.listTools(cursor && { cursor });
    names.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor);
  return names;
}

export async function runJobs(packageName, connect) {
  const folder = process.argv[3] ?? `${process.argv[2]}/node_modules/${packageName}`;
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  for await (const line of createInterface({ input: process.stdin })) {
    const result = await run(JSON.parse(line), connect).catch((error) => ({
      failed: String(error?.stack ?? error),
    }));
    process.stdout.write(`${JSON.stringify({ version, ...result })}\n`);
  }
}
