// Tests the page at /docs in a browser.
import assert from "node:assert/strict";
import { assertAccessible, close, config, open, run } from "../browser/chromium.mjs";

const heading = (page, name) =>
  page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
const send = (page) => page.getByRole("button", { name: "Send" }).click();
const text = (locator) => locator.evaluate((element) => element.textContent);

const steps = {
  async "search works by keyboard"() {
    const it = await open(config.open);
    const { page } = it;
    await heading(page, "Toolpost");
    await assertAccessible(it, "overview");
    await page.keyboard.press("/");
    await page.keyboard.type("numbers");
    const links = page.locator("#list a");
    await page.getByText("1 found").waitFor();
    assert.match(await text(links.first()), /^demo\.add/);
    await page.keyboard.press("Control+A");
    await page.keyboard.type("demo.");
    await page.getByText("6 found").waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    const name = await page.evaluate(() => document.activeElement.getAttribute("href"));
    assert.equal(name, await links.first().getAttribute("href"), "arrows move through the list");
    await page.keyboard.press("ArrowUp");
    assert.equal(
      await page.evaluate(() => document.activeElement.id),
      "search",
      "and back to the search",
    );
    await page.keyboard.press("Control+A");
    await page.keyboard.type("addition numbers two");
    await page.getByText("No results.").waitFor();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("arithmetic");
    await page.getByText("1 found").waitFor();
    await assertAccessible(it, "search");
    await page.keyboard.press("Enter");
    await heading(page, "Add");
    assert.equal(new URL(page.url()).hash, "#demo.add");
    assert.equal(await page.title(), "demo.add · Toolpost");
    assert.equal(
      await page.evaluate(() => document.activeElement.id),
      "operation-title",
      "the title gets the focus for screen readers",
    );
    await close(it);
  },

  async "operation url opens it and back navigation works"() {
    const it = await open(config.open, "/docs#demo.note");
    const { page } = it;
    await heading(page, "Take a note");
    assert.equal(await text(page.locator("#list a[aria-current]")), "note, mutation");
    assert.equal(await page.locator("#try-method option").count(), 1, "a mutation has no GET");
    await page.locator("#list a", { hasText: "slow" }).click();
    await heading(page, "Sleep");
    await page.goBack();
    await heading(page, "Take a note");
    await page.goto(`${config.open}/docs#no.such`);
    await heading(page, "No such operation");
    await close(it);
  },

  async "try-it form sends a call and shows the response"() {
    const it = await open(config.open, "/docs#demo.add");
    const { page } = it;
    await page.getByLabel("a", { exact: false }).first().waitFor();
    await page.locator("#field-0").fill("2.50");
    await page.locator("#field-1").fill("12345678901234567890");
    assert.match(
      await text(page.locator(".curl")),
      /--json '\{"a":2\.50,"b":12345678901234567890\}'$/,
      "digits stay",
    );
    await page.locator("#field-1").fill("3");
    await send(page);
    await page.getByText("200 OK").waitFor();
    assert.equal(await text(page.locator(".response-view .code")), '{\n  "sum": 5.5\n}');
    await page.locator(".response-view summary", { hasText: "Headers" }).click();
    await page.locator(".response-view dd", { hasText: "application/json" }).waitFor();
    await assertAccessible(it, "operation with a response");

    await page.locator("#try-method").selectOption("GET");
    await page.locator("#try-format").selectOption("envelope");
    assert.match(
      await text(page.locator(".curl")),
      /add\?a=2\.50&b=3' \\\n  -H 'Accept: application\/vnd\.toolpost\.envelope\+json'$/,
    );
    await send(page);
    await page.locator(".response-view .code", { hasText: '"source": "local"' }).waitFor();

    await page.getByRole("button", { name: "JSON", exact: true }).click();
    const area = page.getByLabel("Input as JSON");
    await area.fill('{"a": 1,');
    await page.getByText("The input is not JSON").waitFor();
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    await area.fill('{"a": 1, "b": 2, "c": 3}');
    await page.getByText("“c” cannot be sent in a query").waitFor();
    await page.locator("#try-method").selectOption("POST");
    await page.locator("#try-format").selectOption("data");
    await area.fill('{"a": "x", "b": 2}');
    await area.press("Control+Enter");
    await page.getByText("422 Unprocessable Entity").waitFor();
    assert.match(await text(page.locator(".problem")), /VALIDATION_ERROR.*\/a/s);
    await close(it, [422]);
  },

  async "failed call shows its problem details"() {
    const it = await open(config.open, "/docs#demo.fail");
    const { page } = it;
    await page.locator(".reference", { hasText: "DEMO_FAILURE" }).waitFor();
    await page.getByLabel("message").fill("on <b>purpose</b>");
    await send(page);
    await page.getByText("409 Conflict").waitFor();
    assert.match(await text(page.locator(".problem")), /^DEMO_FAILURE on <b>purpose<\/b>/);
    await assertAccessible(it, "a problem");
    await close(it, [409]);
  },

  async "call can be canceled"() {
    const it = await open(config.open, "/docs#demo.slow");
    const { page } = it;
    await page.getByLabel("ms").fill("60000");
    await send(page);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Canceled after").waitFor();
    await page.getByLabel("ms").fill("1");
    await send(page);
    await page.getByText("200 OK").waitFor();
    await close(it);
  },

  async "subscription shows events, stops and resumes"() {
    const it = await open(config.open, "/docs#demo.clock");
    const { page } = it;
    await page.getByLabel("count").fill("100000");
    await page.getByLabel("everyMs").fill("20");
    await page.getByRole("button", { name: "Subscribe" }).click();
    await page.locator(".event", { hasText: '"tick":3,' }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText(/^Stopped\. The stream can be resumed/).waitFor();
    const ticks = () =>
      page
        .locator(".event pre")
        .evaluateAll((all) => all.map((event) => JSON.parse(event.textContent).tick));
    const before = await ticks();
    assert.deepEqual(
      before,
      before.map((_, index) => index + 1),
      "every tick",
    );
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText(/^Resumed with Last-Event-ID [0-9a-f]+-\d+:/).waitFor();
    await page.locator(".event").nth(4).waitFor();
    const after = await ticks();
    assert.equal(after[0], before.at(-1) + 1, "the next tick; none was missed");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByLabel("count").fill("2");
    await page.getByRole("button", { name: "Subscribe" }).click();
    await page.getByText("The stream has ended.").waitFor();
    await assertAccessible(it, "events");
    await close(it);
  },

  async "interrupted stream is resumed"() {
    const it = await open(config.open, "/docs#demo.clock");
    const { page, context } = it;
    await page.getByLabel("count").fill("100000");
    await page.getByLabel("everyMs").fill("20");
    let cuts = 0;
    await page.route("**/api/demo/clock", async (route) => {
      // The first response is truncated, like that of a lost connection.
      if (cuts++ > 0) return route.continue();
      await route.fulfill({
        contentType: "text/event-stream",
        body: 'id: 00000000000000000000000000000000-7\ndata: {"tick":7}\n\nid: x\ndata: {"ti',
      });
    });
    await page.getByRole("button", { name: "Subscribe" }).click();
    const resumed = await page.waitForRequest(
      (request) => request.headers()["last-event-id"] !== undefined,
    );
    assert.equal(resumed.headers()["last-event-id"], "00000000000000000000000000000000-7");
    await page.getByText("Connection lost; resuming with Last-Event-ID").waitFor();
    await page.getByText("The stream no longer exists; a new one was started.").waitFor();
    await page.locator(".event", { hasText: '"tick":1,' }).waitFor();
    await context.unrouteAll({ behavior: "ignoreErrors" });
    await close(it);
  },

  async "operation metadata is rendered as text"() {
    const it = await open(config.open, `/docs#${encodeURIComponent(`hostile.${config.hostile}`)}`);
    const { page } = it;
    await heading(page, `Title ${config.hostile}`);
    assert.ok(
      (await text(page.locator("header > .markdown"))).startsWith(
        `Description ${config.hostile} [link](javascript:`,
      ),
    );
    assert.equal(await text(page.locator(".reference .rows code.name").first()), config.hostile);
    await page.keyboard.press("/");
    await page.keyboard.type("<img");
    await page.getByText("1 found").waitFor();
    await send(page);
    await page.getByText("200 OK").waitFor();
    assert.ok((await text(page.locator(".response-view .code"))).includes("onerror"));
    const elements = await page.evaluate(() => ({
      created: document.querySelectorAll("main img, nav img, body script, a[href^='javascript']")
        .length,
      hacked: globalThis.hacked,
    }));
    assert.deepEqual(elements, { created: 0, hacked: undefined });
    // The content security policy makes the browser reject HTML from text.
    const errorName = await page.evaluate(() => {
      try {
        document.querySelector("main").innerHTML = "<b>text</b>";
      } catch (error) {
        return error.name;
      }
    });
    assert.equal(errorName, "TypeError");
    const messages = it.recorded.console;
    const index = messages.findIndex(({ text }) => text.includes("TrustedHTML"));
    if (index >= 0) messages.splice(index, 1);
    await close(it);
  },

  async "recursive schema expands on demand"() {
    const it = await open(config.open, "/docs#files.tree");
    const { page } = it;
    await heading(page, "tree");
    for (let depth = 0; depth < 6; depth += 1)
      await page.locator(".reference .nested:not([open]) > summary").first().click();
    assert.equal(await page.locator(".reference .nested[open]").count(), 6);
    await assertAccessible(it, "deep schemas");
    await close(it);
  },

  async "odd schemas and descriptions are rendered"() {
    const it = await open("about:blank", "");
    const { page } = it;
    const nested = (depth) =>
      depth
        ? { type: "array", minItems: 1000, items: nested(depth - 1) }
        : { type: "integer", minimum: 5 };
    const schemas = {
      Itself: { $ref: "#/components/schemas/Itself" },
      Choice: { anyOf: [{ $ref: "#/components/schemas/Choice" }] },
      All: {
        allOf: [{ $ref: "#/components/schemas/All" }],
        properties: { a: { $ref: "#/components/schemas/All" } },
        required: ["a"],
      },
      Nested: nested(12),
      Gone: { $ref: "#/components/schemas/Nowhere" },
      Elsewhere: { $ref: "https://evil.example/schema.json" },
      Root: { type: "object", properties: { again: { $ref: "#" } }, required: ["again"] },
      Names: {
        type: "object",
        properties: {
          ["__proto__"]: { type: "string" },
          constructor: { type: "string" },
          "": true,
          "a b/c~": false,
        },
      },
      Odd: {
        type: ["string", "null", 7],
        enum: [null, { a: 1 }],
        default: { b: [1] },
        minLength: "x",
        properties: [],
        required: {},
      },
      No: false,
      Number: 7,
    };
    const description = `${"x".repeat(20000)}${" \n".repeat(5000)}${"**`".repeat(5000)}`;
    const paths = Object.fromEntries(
      Object.keys(schemas).map((name) => {
        const schema = { $ref: `#/components/schemas/${name}` };
        const post = {
          summary: name,
          description,
          requestBody: { content: { "application/json": { schema } } },
          responses: {
            200: { content: { "application/json": { schema } } },
            500: { $ref: "#/nowhere" },
          },
        };
        return [`/api/odd/${name}`, { post }];
      }),
    );
    await page.route("**/openapi.json", (route) =>
      route.fulfill({
        json: {
          openapi: "3.1.0",
          info: {},
          paths: { ...paths, "/api/odd/%FF": { post: {} }, "/else": { get: {} }, "/none": null },
          components: { schemas },
        },
      }),
    );
    it.gateway = config.open;
    for (const name of Object.keys(schemas)) {
      await page.goto(`${config.open}/docs#odd.${name}`);
      await page.reload();
      await heading(page, name);
      await page.locator(".reference").waitFor();
      const closed = page.locator(".reference details:not([open]) > summary");
      for (let depth = 0; depth < 6 && (await closed.count()); depth += 1)
        await closed.first().click();
    }
    await close(it);
  },

  async "token is required and kept in memory only"() {
    const it = await open(config.closed, "/docs#demo.add");
    const { page, context } = it;
    await heading(page, "Access token");
    await assertAccessible(it, "token");
    await page.getByLabel("Token").fill("tpt_wrong");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("invalid token; it may have been replaced").waitFor();
    await page.getByLabel("Token").fill(config.token);
    await page.keyboard.press("Enter");
    await heading(page, "Add");
    await send(page);
    await page.getByText("200 OK").waitFor();
    assert.match(await text(page.locator(".curl")), /-H "Authorization: Bearer \$TOOLPOST_TOKEN"/);
    const stored = await page.evaluate(() => ({
      page: document.documentElement.outerHTML,
      local: { ...localStorage },
      session: { ...sessionStorage },
      cookies: document.cookie,
    }));
    assert.ok(
      !JSON.stringify([stored, await context.storageState(), it.recorded]).includes(config.token),
      "the token is only in memory",
    );
    await page.reload();
    await heading(page, "Access token");
    await close(it, [401]);
  },

  async "search stays fast with a thousand operations"() {
    const it = await open(config.large);
    const { page } = it;
    await page.getByText("1,010 operations").waitFor();
    assert.ok((await page.locator("#list a").count()) < 400, "links are created when they are near the viewport");
    await page.keyboard.press("/");
    await page.keyboard.type("operation77");
    const links = page.locator("#list a");
    await page.getByText("11 found").waitFor();
    assert.match(await text(links.first()), /^bulk7\.things\/operation77Op/);
    await page.locator("#search").fill("bk7oper77");
    await page.getByText("19 found").waitFor();
    await page.locator("#search").fill("ångström");
    await page.getByText("1,000 found").waitFor();
    assert.ok((await links.count()) < 200, "also the links of search results");
    await links.first().focus();
    for (let step = 0; step < 120; step += 1) await page.keyboard.press("ArrowDown");
    assert.ok((await links.count()) > 120, "arrow keys create the links of the next block");
    const durationMs = await page.evaluate(() => {
      const box = document.getElementById("search");
      const start = performance.now();
      for (const query of ["o", "op", "ope", "operation 5", "bulk3 thing", "zzz"]) {
        box.value = query;
        box.dispatchEvent(new Event("input"));
        document.body.getBoundingClientRect();
      }
      return (performance.now() - start) / 6;
    });
    console.log(`a keystroke in the search of 1,010 operations takes ${durationMs.toFixed(1)} ms`);
    assert.ok(durationMs < 100, `a keystroke takes ${durationMs} ms`);
    await page.locator("#search").fill("");
    await page.goto(`${config.large}/docs#bulk9.things%2Foperation999`);
    await heading(page, "Operation number 999");
    assert.equal(await page.locator("#list a[aria-current]").count(), 1);
    await page.locator("#list a[aria-current]").waitFor({ state: "visible" });
    await close(it);
  },

  async "page works on mobile, in dark mode, by keyboard"() {
    const it = await open(config.open, "/docs#demo.add", {
      viewport: { width: 390, height: 844 },
      colorScheme: "dark",
      hasTouch: true,
      isMobile: true,
    });
    const { page } = it;
    await heading(page, "Add");
    assert.ok(
      await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      "no horizontal overflow",
    );
    await send(page);
    await page.getByText("200 OK").waitFor();
    await assertAccessible(it, "phone");
    await page.getByRole("button", { name: "Operations" }).click();
    await page.locator("#search:focus").waitFor();
    // The sidebar covers the main content, which is inert, including its landmark and heading.
    await assertAccessible(it, "phone, list", ["landmark-one-main", "page-has-heading-one"]);
    await page.keyboard.press("Escape");
    await page.locator("#menu:focus").waitFor();
    await page.getByRole("button", { name: "Operations" }).click();
    await page.locator("#list a", { hasText: "clock" }).click();
    await heading(page, "Clock");
    await page.locator("#sidebar").waitFor({ state: "hidden" });
    await close(it);
  },

  async "keyboard focus is not trapped"() {
    const it = await open(config.open, "/docs#demo.clock");
    const { page } = it;
    await heading(page, "Clock");
    await page.getByRole("button", { name: "JSON", exact: true }).click();
    const visited = new Set();
    for (let step = 0; step < 80; step += 1) {
      await page.keyboard.press("Tab");
      visited.add(
        await page.evaluate(
          () =>
            document.activeElement.id ||
            document.activeElement.textContent.slice(0, 20) ||
            document.activeElement.tagName,
        ),
      );
      if (await page.evaluate(() => document.activeElement === document.body)) visited.add("BODY");
    }
    assert.ok(visited.has("search") && visited.has("Subscribe"), [...visited].join(", "));
    assert.ok(visited.has("BODY"), `the end of the page is not reached: ${[...visited].join(", ")}`);
    await close(it);
  },
};

await run(steps);
