// What the clients for Node share. A job is a line on standard input:
//
//   {"url": … | "command": […], "era": "legacy" | "modern", "calls": [{"name", "arguments"}]}
//
// and its answer is a line on standard output:
//
//   {"version", "protocol", "tools": [names], "answers": [{"result"} | {"thrown"}]} or {"failed"}
//
// where the version is that of the client.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

/// The packages stand in a folder that is not ours, the first argument.
export const load = createRequire(`${process.argv[2]}/`);

// Standard output is for answers; what a library has to say is not one.
console.log = console.info = console.debug = console.error;

/// What a client declares, and how it answers what it is asked meanwhile.
export const capabilities = { elicitation: {}, sampling: {}, roots: {} };

export const answers = {
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

/// Connects with `open(job)`, which gives `{client, protocol()}`, lists, and makes every call.
async function run(job, open) {
  const { client, protocol } = await open(job);
  try {
    const tools = await listed(client);
    const answers = [];
    for (const call of job.calls) {
      answers.push(
        await client.callTool(call).then(
          (result) => ({ result }),
          (error) => ({ thrown: String(error?.message ?? error) }),
        ),
      );
    }
    return { protocol: protocol(), tools, answers };
  } finally {
    await client.close();
  }
}

async function listed(client) {
  const names = [];
  let cursor;
  do {
    const page = await client.listTools(cursor && { cursor });
    names.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor);
  return names;
}

export async function serve(name, open) {
  const manifest = `${process.argv[2]}/node_modules/${name}/package.json`;
  const { version } = JSON.parse(readFileSync(manifest, "utf8"));
  for await (const line of createInterface({ input: process.stdin })) {
    const answer = await run(JSON.parse(line), open).catch((error) => ({
      failed: String(error?.stack ?? error),
    }));
    process.stdout.write(`${JSON.stringify({ version, ...answer })}\n`);
  }
}
