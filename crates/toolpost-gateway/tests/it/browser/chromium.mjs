// Chromium, what its pages say and ask for, and who could not use them. What it needs is told in
// TOOLPOST_BROWSER.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

export const told = JSON.parse(process.env.TOOLPOST_BROWSER);
const require = createRequire(told.packages);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
/** How long anything may take on a busy machine, in milliseconds. */
const PATIENCE = 20_000;

export const browser = await chromium.launch({
  executablePath: told.chromium,
  args: [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

/** A page of a gateway, and everything that it said and asked for. */
export async function open(gateway, address = "/docs", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const seen = { requests: [], said: [], errors: [] };
  context.on("request", (request) => seen.requests.push(request.url()));
  context.on("console", (message) =>
    seen.said.push({ type: message.type(), text: message.text(), url: message.location().url }),
  );
  context.on("weberror", (error) => seen.errors.push(String(error.error())));
  await page.goto(gateway + address);
  return { page, context, seen, gateway };
}

/** Nothing went wrong, and nobody else was asked; `refused` are the statuses that were asked for. */
export async function close({ context, seen, gateway }, refused = []) {
  await context.close();
  const lines = refused.map(
    (status) => `Failed to load resource: the server responded with a status of ${status}`,
  );
  const said = seen.said
    .filter(({ type }) => type === "error" || type === "warning")
    .map(({ text }) => text);
  const unexpected = said.filter((text) => {
    const at = lines.findIndex((line) => text.startsWith(line));
    if (at >= 0) lines.splice(at, 1);
    return at < 0;
  });
  assert.deepEqual(unexpected, [], "the console");
  assert.deepEqual(lines, [], "answers that were expected to be refusals");
  assert.deepEqual(seen.errors, [], "errors of the page");
  const elsewhere = seen.requests.filter((url) => !url.startsWith(`${gateway}/`));
  assert.deepEqual(elsewhere, [], "requests to others");
  assert.ok(seen.requests.length > 5, "requests are recorded");
}

export async function accessible({ page }, where, without = []) {
  await page.evaluate(axe);
  const rules = Object.fromEntries(without.map((rule) => [rule, { enabled: false }]));
  const { violations } = await page.evaluate(
    (rules) => globalThis.axe.run(document, { resultTypes: ["violations"], rules }),
    rules,
  );
  const words = violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(" ")}`,
  );
  assert.deepEqual(words, [], `accessibility, ${where}`);
}

/** Does one step after the other, and says by its exit code whether all went well. */
export async function run(steps) {
  let failed = 0;
  for (const [name, step] of Object.entries(steps)) {
    const began = performance.now();
    try {
      await step();
      console.log(`ok     ${name} (${Math.round(performance.now() - began)} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}\n${error.stack}`);
      // Each may have waited for long, and the next ones hardly say anything else.
      if (failed === 3) break;
    }
  }
  await browser.close();
  // Whatever a failed step has left open does not keep the others waiting.
  process.exit(failed ? 1 : 0);
}
