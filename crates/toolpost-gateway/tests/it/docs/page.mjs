// Uses the page at /docs as people do.
import assert from "node:assert/strict";
import { accessible, close, open, run, told } from "../browser/chromium.mjs";

const heading = (page, name) =>
  page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
const send = (page) => page.getByRole("button", { name: "Send" }).click();
const text = (locator) => locator.evaluate((element) => element.textContent);

const steps = {
  async "search finds and opens by keyboard"() {
    const it = await open(told.open);
    const { page } = it;
    await heading(page, "Toolpost");
    await accessible(it, "overview");
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
    await page.getByText("Nothing was found.").waitFor();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("arithmetic");
    await page.getByText("1 found").waitFor();
    await accessible(it, "search");
    await page.keyboard.press("Enter");
    await heading(page, "Add");
    assert.equal(new URL(page.url()).hash, "#demo.add");
    assert.equal(await page.title(), "demo.add · Toolpost");
    assert.equal(
      await page.evaluate(() => document.activeElement.id),
      "operation-title",
      "whoever reads by ear is told",
    );
    await close(it);
  },

  async "an address opens its operation, and going back leaves it"() {
    const it = await open(told.open, "/docs#demo.note");
    const { page } = it;
    await heading(page, "Take a note");
    assert.equal(await text(page.locator("#list a[aria-current]")), "note, mutation");
    assert.equal(await page.locator("#try-method option").count(), 1, "a mutation is not for GET");
    await page.locator("#list a", { hasText: "slow" }).click();
    await heading(page, "Be slow");
    await page.goBack();
    await heading(page, "Take a note");
    await page.goto(`${told.open}/docs#no.such`);
    await heading(page, "No such operation");
    await close(it);
  },

  async "an operation is tried and its answer shown"() {
    const it = await open(told.open, "/docs#demo.add");
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
    assert.equal(await text(page.locator(".answer .code")), '{\n  "sum": 5.5\n}');
    await page.locator(".answer summary", { hasText: "Headers" }).click();
    await page.locator(".answer dd", { hasText: "application/json" }).waitFor();
    await accessible(it, "operation with an answer");

    await page.locator("#try-method").selectOption("GET");
    await page.locator("#try-form").selectOption("envelope");
    assert.match(
      await text(page.locator(".curl")),
      /add\?a=2\.50&b=3' \\\n  -H 'Accept: application\/vnd\.toolpost\.envelope\+json'$/,
    );
    await send(page);
    await page.locator(".answer .code", { hasText: '"source": "local"' }).waitFor();

    await page.getByRole("button", { name: "JSON", exact: true }).click();
    const area = page.getByLabel("Input as JSON");
    await area.fill('{"a": 1,');
    await page.getByText("The input is not JSON").waitFor();
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    await area.fill('{"a": 1, "b": 2, "c": 3}');
    await page.getByText("A query has no place for “c”").waitFor();
    await page.locator("#try-method").selectOption("POST");
    await page.locator("#try-form").selectOption("data");
    await area.fill('{"a": "x", "b": 2}');
    await area.press("Control+Enter");
    await page.getByText("422 Unprocessable Entity").waitFor();
    assert.match(await text(page.locator(".problem")), /VALIDATION_ERROR.*\/a/s);
    await close(it, [422]);
  },

  async "an error shows its problem"() {
    const it = await open(told.open, "/docs#demo.fail");
    const { page } = it;
    await page.locator(".reference", { hasText: "DEMO_FAILURE" }).waitFor();
    await page.getByLabel("message").fill("on <b>purpose</b>");
    await send(page);
    await page.getByText("409 Conflict").waitFor();
    assert.match(await text(page.locator(".problem")), /^DEMO_FAILURE on <b>purpose<\/b>/);
    await accessible(it, "a problem");
    await close(it, [409]);
  },

  async "a call is canceled"() {
    const it = await open(told.open, "/docs#demo.slow");
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

  async "a subscription shows its events, stops, and goes on where it was"() {
    const it = await open(told.open, "/docs#demo.clock");
    const { page } = it;
    await page.getByLabel("count").fill("100000");
    await page.getByLabel("everyMs").fill("20");
    await page.getByRole("button", { name: "Subscribe" }).click();
    await page.locator(".event", { hasText: '"tick":3,' }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText(/^Stopped\. For a while/).waitFor();
    const ticks = () =>
      page
        .locator(".event pre")
        .evaluateAll((all) => all.map((one) => JSON.parse(one.textContent).tick));
    const before = await ticks();
    assert.deepEqual(
      before,
      before.map((_, at) => at + 1),
      "every tick",
    );
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText(/^Returned with Last-Event-ID [0-9a-f]+-\d+:/).waitFor();
    await page.locator(".event").nth(4).waitFor();
    const after = await ticks();
    assert.equal(after[0], before.at(-1) + 1, "the next tick, none lost");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByLabel("count").fill("2");
    await page.getByRole("button", { name: "Subscribe" }).click();
    await page.getByText("The stream has ended.").waitFor();
    await accessible(it, "events");
    await close(it);
  },

  async "a stream that is cut off is taken up again"() {
    const it = await open(told.open, "/docs#demo.clock");
    const { page, context } = it;
    await page.getByLabel("count").fill("100000");
    await page.getByLabel("everyMs").fill("20");
    let cuts = 0;
    await page.route("**/api/demo/clock", async (route) => {
      // The first answer is a stream that ends in the middle, as a lost connection looks.
      if (cuts++ > 0) return route.continue();
      await route.fulfill({
        contentType: "text/event-stream",
        body: 'id: 00000000000000000000000000000000-7\ndata: {"tick":7}\n\nid: x\ndata: {"ti',
      });
    });
    await page.getByRole("button", { name: "Subscribe" }).click();
    const again = await page.waitForRequest(
      (request) => request.headers()["last-event-id"] !== undefined,
    );
    assert.equal(again.headers()["last-event-id"], "00000000000000000000000000000000-7");
    await page.getByText("The connection was lost; returning with Last-Event-ID").waitFor();
    await page.getByText("That stream is not there any more; this is another one.").waitFor();
    await page.locator(".event", { hasText: '"tick":1,' }).waitFor();
    await context.unrouteAll({ behavior: "ignoreErrors" });
    await close(it);
  },

  async "what an operation says about itself stays text"() {
    const it = await open(told.open, `/docs#${encodeURIComponent(`hostile.${told.hostile}`)}`);
    const { page } = it;
    await heading(page, `Title ${told.hostile}`);
    assert.ok(
      (await text(page.locator("header > .words"))).startsWith(
        `Description ${told.hostile} [link](javascript:`,
      ),
    );
    assert.equal(await text(page.locator(".reference .rows code.name").first()), told.hostile);
    await page.keyboard.press("/");
    await page.keyboard.type("<img");
    await page.getByText("1 found").waitFor();
    await send(page);
    await page.getByText("200 OK").waitFor();
    assert.ok((await text(page.locator(".answer .code"))).includes("onerror"));
    const elements = await page.evaluate(() => ({
      made: document.querySelectorAll("main img, nav img, body script, a[href^='javascript']")
        .length,
      hacked: globalThis.hacked,
    }));
    assert.deepEqual(elements, { made: 0, hacked: undefined });
    // The browser itself refuses to make elements of a text, should the page ever try to.
    const refused = await page.evaluate(() => {
      try {
        document.querySelector("main").innerHTML = "<b>text</b>";
      } catch (error) {
        return error.name;
      }
    });
    assert.equal(refused, "TypeError");
    const blocked = it.seen.said.findIndex(({ text }) => text.includes("TrustedHTML"));
    if (blocked >= 0) it.seen.said.splice(blocked, 1);
    await close(it);
  },

  async "a schema that refers to itself is opened as deep as one likes"() {
    const it = await open(told.open, "/docs#files.tree");
    const { page } = it;
    await heading(page, "tree");
    for (let depth = 0; depth < 6; depth += 1)
      await page.locator(".reference .nested:not([open]) > summary").first().click();
    assert.equal(await page.locator(".reference .nested[open]").count(), 6);
    await accessible(it, "deep schemas");
    await close(it);
  },

  async "no schema and no description breaks the page"() {
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
    it.gateway = told.open;
    for (const name of Object.keys(schemas)) {
      await page.goto(`${told.open}/docs#odd.${name}`);
      await page.reload();
      await heading(page, name);
      await page.locator(".reference").waitFor();
      const closed = page.locator(".reference details:not([open]) > summary");
      for (let depth = 0; depth < 6 && (await closed.count()); depth += 1)
        await closed.first().click();
    }
    await close(it);
  },

  async "a token is asked for, and kept nowhere"() {
    const it = await open(told.closed, "/docs#demo.add");
    const { page, context } = it;
    await heading(page, "Who is calling?");
    await accessible(it, "token");
    await page.getByLabel("Token").fill("tpt_wrong");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("this token is not known here").waitFor();
    await page.getByLabel("Token").fill(told.token);
    await page.keyboard.press("Enter");
    await heading(page, "Add");
    await send(page);
    await page.getByText("200 OK").waitFor();
    assert.match(await text(page.locator(".curl")), /-H "Authorization: Bearer \$TOOLPOST_TOKEN"/);
    const kept = await page.evaluate(() => ({
      page: document.documentElement.outerHTML,
      local: { ...localStorage },
      session: { ...sessionStorage },
      cookies: document.cookie,
    }));
    assert.ok(
      !JSON.stringify([kept, await context.storageState(), it.seen]).includes(told.token),
      "the token is only in memory",
    );
    await page.reload();
    await heading(page, "Who is calling?");
    await close(it, [401]);
  },

  async "a thousand operations are as quick as ten"() {
    const it = await open(told.large);
    const { page } = it;
    await page.getByText("1,010 operations").waitFor();
    assert.ok((await page.locator("#list a").count()) < 400, "links are made when they are near");
    await page.keyboard.press("/");
    await page.keyboard.type("operation77");
    const links = page.locator("#list a");
    await page.getByText("11 found").waitFor();
    assert.match(await text(links.first()), /^bulk7\.things\/operation77Op/);
    await page.locator("#search").fill("bk7oper77");
    await page.getByText("19 found").waitFor();
    await page.locator("#search").fill("ångström");
    await page.getByText("1,000 found").waitFor();
    assert.ok((await links.count()) < 200, "also those that were found");
    await links.first().focus();
    for (let step = 0; step < 120; step += 1) await page.keyboard.press("ArrowDown");
    assert.ok((await links.count()) > 120, "arrows go on where no link has been made yet");
    const took = await page.evaluate(() => {
      const box = document.getElementById("search");
      const began = performance.now();
      for (const query of ["o", "op", "ope", "operation 5", "bulk3 thing", "zzz"]) {
        box.value = query;
        box.dispatchEvent(new Event("input"));
        document.body.getBoundingClientRect();
      }
      return (performance.now() - began) / 6;
    });
    console.log(`a key in the search of 1,010 operations takes ${took.toFixed(1)} ms`);
    assert.ok(took < 100, `a key takes ${took} ms`);
    await page.locator("#search").fill("");
    await page.goto(`${told.large}/docs#bulk9.things%2Foperation999`);
    await heading(page, "Operation number 999");
    assert.equal(await page.locator("#list a[aria-current]").count(), 1);
    await page.locator("#list a[aria-current]").waitFor({ state: "visible" });
    await close(it);
  },

  async "it works on a phone, in the dark, and without a mouse"() {
    const it = await open(told.open, "/docs#demo.add", {
      viewport: { width: 390, height: 844 },
      colorScheme: "dark",
      hasTouch: true,
      isMobile: true,
    });
    const { page } = it;
    await heading(page, "Add");
    assert.ok(
      await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      "nothing sticks out",
    );
    await send(page);
    await page.getByText("200 OK").waitFor();
    await accessible(it, "phone");
    await page.getByRole("button", { name: "Operations" }).click();
    await page.locator("#search:focus").waitFor();
    // The list covers the rest, which is out of reach meanwhile, its landmark and heading with it.
    await accessible(it, "phone, list", ["landmark-one-main", "page-has-heading-one"]);
    await page.keyboard.press("Escape");
    await page.locator("#menu:focus").waitFor();
    await page.getByRole("button", { name: "Operations" }).click();
    await page.locator("#list a", { hasText: "clock" }).click();
    await heading(page, "Clock");
    await page.locator("#side").waitFor({ state: "hidden" });
    await close(it);
  },

  async "the keyboard is trapped nowhere"() {
    const it = await open(told.open, "/docs#demo.clock");
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
    assert.ok(visited.has("BODY"), `the end is never reached: ${[...visited].join(", ")}`);
    await close(it);
  },
};

await run(steps);
