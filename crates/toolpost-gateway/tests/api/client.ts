// Calls three operations of a gateway through types that were made from its document.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

// The data, and never the envelope, which has a type of its own.
type Read = "application/json" | "application/problem+json";
const client = createClient<paths, Read>({ baseUrl: process.argv[2] });

const read = await client.GET("/api/demo/add", { params: { query: { a: 2, b: 3 } } });
const posted = await client.POST("/api/demo/add", { body: { a: 2, b: 3 } });
const sum: number | undefined = posted.data?.sum;

const noted = await client.POST("/api/demo/note", { body: { text: "from a client" } });
const note: components["schemas"]["DemoNoteOutput"] | undefined = noted.data;

const failed = await client.GET("/api/demo/fail");

// @ts-expect-error: what does not fit is not compiled, so the types are more than `any`.
const refused = await client.POST("/api/demo/add", { body: { a: "two", b: 3 } });
// @ts-expect-error: neither is an operation that is not there.
const missing = () => client.POST("/api/demo/none", {});
// @ts-expect-error: nor a mutation by GET.
const mutated = () => client.GET("/api/demo/note");

function declared(error: typeof failed.error) {
  if (!error || error.error?.code !== "DEMO_FAILURE") return undefined;
  const details = error.error.details as components["schemas"]["DemoFailDemoFailureDetails"];
  return { status: error.status, code: error.error.code, remedy: details.remedy };
}

console.log(JSON.stringify({
  read: read.data,
  posted: { sum },
  noted: { text: note?.text, kept: note?.kept },
  failed: declared(failed.error),
  refused: { status: refused.error?.status, code: refused.error?.error?.code },
}));
