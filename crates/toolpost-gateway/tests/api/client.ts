// Calls three operations of a gateway through types generated from its OpenAPI document.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

// The content types without that of the envelope, which has a type of its own.
type ContentTypes = "application/json" | "application/problem+json";
const client = createClient<paths, ContentTypes>({ baseUrl: process.argv[2] });

const read = await client.GET("/api/demo/add", { params: { query: { a: 2, b: 3 } } });
const posted = await client.POST("/api/demo/add", { body: { a: 2, b: 3 } });
const sum: number | undefined = posted.data?.sum;

const noted = await client.POST("/api/demo/note", { body: { text: "from a client" } });
const note: components["schemas"]["DemoNoteOutput"] | undefined = noted.data;

const failed = await client.GET("/api/demo/fail");

// @ts-expect-error: input that does not match the schema does not compile.
const rejected = await client.POST("/api/demo/add", { body: { a: "two", b: 3 } });
// @ts-expect-error: an unknown operation does not compile.
const missing = () => client.POST("/api/demo/none", {});
// @ts-expect-error: a mutation by GET does not compile.
const mutated = () => client.GET("/api/demo/note");

function declaredError(error: typeof failed.error) {
  if (!error || error.error?.code !== "DEMO_FAILURE") return undefined;
  const details = error.error.details as components["schemas"]["DemoFailDemoFailureDetails"];
  return { status: error.status, code: error.error.code, remedy: details.remedy };
}

console.log(JSON.stringify({
  read: read.data,
  posted: { sum },
  noted: { text: note?.text, kept: note?.kept },
  failed: declaredError(failed.error),
  refused: { status: rejected.error?.status, code: rejected.error?.error?.code },
}));
