// Runs pages in Chromium; checks their console output, their requests and their accessibility.
// TOOLPOST_BROWSER is the configuration, as JSON.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

export const config = JSON.parse(process.env.TOOLPOST_BROWSER);
const require = createRequire(config.packages);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
/** The timeout of each action, long enough for a busy machine. */
const TIMEOUT_MS = 20_000;

export const browser = await chromium.launch({
  executablePath: config.chromium,
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

/** Opens a page of a gateway; records its console output, its requests and its errors. */
export async function open(gateway, path = "/docs", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const recorded = { requests: [], console: [], errors: [] };
  context.on("request", (request) => recorded.requests.push(request.url()));
  context.on("console", (message) =>
    recorded.console.push({
      type: message.type(),
      text: message.text(),
      url: message.location().url,
    }),
  );
  context.on("weberror", (error) => recorded.errors.push(String(error.error())));
  await page.goto(gateway + path);
  return { page, context, recorded, gateway };
}

/**
 * Closes a page and asserts that it had no errors and sent requests to its gateway only;
 * `expectedStatuses` are the HTTP error statuses that the test provoked.
 */
export async function close({ context, recorded, gateway }, expectedStatuses = []) {
  await context.close();
  const expected = expectedStatuses.map(
    (status) => `Failed to load resource: the server responded with a status of ${status}`,
  );
  const messages = recorded.console
    .filter(({ type }) => type === "error" || type === "warning")
    .map(({ text }) => text);
  const unexpected = messages.filter((text) => {
    const index = expected.findIndex((line) => text.startsWith(line));
    if (index >= 0) expected.splice(index, 1);
    return index < 0;
  });
  assert.deepEqual(unexpected, [], "console messages");
  assert.deepEqual(expected, [], "missing error responses");
  assert.deepEqual(recorded.errors, [], "page errors");
  const external = recorded.requests.filter((url) => !url.startsWith(`${gateway}/`));
  assert.deepEqual(external, [], "requests to other hosts");
  assert.ok(recorded.requests.length > 5, "requests are recorded");
}

/** Asserts that axe finds no accessibility violations, except those of the disabled rules. */
export async function assertAccessible({ page }, label, disabledRules = []) {
  await page.evaluate(axe);
  const rules = Object.fromEntries(disabledRules.map((rule) => [rule, { enabled: false }]));
  const { violations } = await page.evaluate(
    (rules) => globalThis.axe.run(document, { resultTypes: ["violations"], rules }),
    rules,
  );
  const messages = violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(" ")}`,
  );
  assert.deepEqual(messages, [], `accessibility, ${label}`);
}

/** Runs the steps in order; the exit code is 1 if a step failed. */
export async function run(steps) {
  let failed = 0;
  for (const [name, step] of Object.entries(steps)) {
    const start = performance.now();
    try {
      await step();
      console.log(`ok     ${name} (${Math.round(performance.now() - start)} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}\n${error.stack}`);
      // Each failure may take a whole timeout, and further failures rarely add information.
      if (failed === 3) break;
    }
  }
  await browser.close();
  // Resources that a failed step has left open must not keep the process alive.
  process.exit(failed ? 1 : 0);
}
