// Tests the page at /rooms in a browser.
import assert from "node:assert/strict";
import { assertAccessible, close, config, open, run } from "../browser/chromium.mjs";
import { capabilityText, mayAllow } from "../../../src/endpoint/rooms_page/capability.js";
import { participant } from "./participant.mjs";

const text = (locator) => locator.evaluate((element) => element.textContent);
const messages = (page) => page.getByRole("log", { name: "Messages" });
const button = (parent, name) => parent.getByRole("button", { name });
const form = (page) => page.locator("summary", { hasText: "Call an operation" });
const call = (name, args) => ({ method: "tools/call", params: { name, arguments: args } });

const isRejectOf =
  (id) =>
  ({ kind, correlation_id: ids }) =>
    kind === "mcp/reject" && ids[0] === id;

/** Opens the page as this participant and joins a room. */
async function openRoom(name, room, options) {
  const it = await open(config.closed, `/rooms#room=${room}&token=tpt_${name}`, options);
  await it.page.locator("#own-name", { hasText: name }).waitFor();
  return it;
}

async function send(page, message) {
  await page.getByLabel("Write a message").fill(message);
  await page.keyboard.press("Enter");
}

const steps = {
  /** Each row: a capability, a kind and a payload, whether it may be allowed, and how it is shown. */
  async "capabilities decide which buttons are shown"() {
    const read = call("read_file", { path: "/a" });
    const [list, request] = [{ method: "tools/list", params: {} }, "mcp/request"];
    const callOf = (name) => ({ kind: request, payload: { ...read, params: { name } } });
    for (const [capability, kind, payload, expected, shown] of [
      ["*", request, read, true, "*"],
      ["mcp/*", request, read, true, "mcp/*"],
      ["chat", request, read, false, "chat"],
      ["mcp/request:tools/call:read_*", request, read, true, "mcp/request:tools/call:read_*"],
      [{ kind: "*" }, request, read, true, "*"],
      [{ kind: "chat" }, "chat", { text: "" }, true, "chat"],
      [callOf("read_*"), request, read, true, "mcp/request tools/call read_*"],
      [callOf("write_*"), request, read, false, "mcp/request tools/call write_*"],
      [callOf("read_*"), request, list, false, "mcp/request tools/call read_*"],
      [callOf("*_*_file"), request, read, false, "mcp/request tools/call *_*_file"],
      [callOf(["a", "read_file"]), request, read, true, null],
      // Patterns that only the gateway evaluates.
      [callOf("/^read/"), request, read, true, "mcp/request tools/call /^read/"],
      [callOf("!write"), request, read, true, "mcp/request tools/call !write"],
      [{ kind: request, payload: { "**": "x" } }, request, read, true, null],
      [null, request, read, false, "null"],
    ]) {
      const row = JSON.stringify([capability, kind, payload]);
      assert.equal(mayAllow([capability], kind, payload), expected, row);
      assert.equal(capabilityText(capability), shown ?? JSON.stringify(capability), row);
    }
  },

  async "token is required, validated and never stored"() {
    const it = await open(config.closed, "/rooms#room=tokens");
    const { page, context } = it;
    await page.getByRole("heading", { name: "Join a room" }).waitFor();
    await assertAccessible(it, "token");
    await button(page, "Join").click();
    await page.getByText("A token is required.").waitFor();
    await page.getByLabel("Token").fill("tpt_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("invalid token; it may have been replaced").waitFor();
    await page.getByLabel("Token").fill("tpt_ada");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "tokens" }).waitFor();
    await page.locator("#own-name", { hasText: "ada" }).waitFor();
    await page.locator(".links a[aria-current]", { hasText: "tokens" }).waitFor();
    assert.equal(await text(page.locator(".links a").first()), "lobby");
    await page.goto(`${config.closed}/docs`);
    await page.goto(`${config.closed}/rooms#token=tpt_ada&room=tokens`);
    await page.locator("#own-name", { hasText: "ada" }).waitFor();
    assert.equal(new URL(page.url()).hash, "#room=tokens", "the token is not in the address");
    const stored = await page.evaluate(() => ({
      page: document.documentElement.outerHTML,
      local: { ...localStorage },
      session: { ...sessionStorage },
      cookies: document.cookie,
    }));
    const all = JSON.stringify([stored, await context.storageState(), it.recorded]);
    assert.ok(!all.includes("tpt_ada"), "the token is only in memory");
    await button(page, "Leave").click();
    await page.getByRole("heading", { name: "Join a room" }).waitFor();
    await close(it);
  },

  async "chat messages are rendered as plain text"() {
    const agent = await participant("agent", "talk");
    agent.send("chat", { text: "before" });
    const it = await openRoom("ada", "talk");
    const { page } = it;
    await messages(page).getByText("before").waitFor();
    agent.send("chat", { text: config.hostile });
    await messages(page).getByText(config.hostile).waitFor();
    agent.send("odd/kind", { [config.hostile]: config.hostile });
    agent.send("chat", { text: "turned \u202e around" });
    await messages(page).getByText("turned \\u202e around").waitFor();
    await send(page, "hello <b>agent</b>");
    const isChat = ({ from, kind }) => from === "ada" && kind === "chat";
    const received = await agent.waitForMessage("the chat", isChat);
    assert.equal(received.payload.text, "hello <b>agent</b>");
    assert.equal(await page.getByLabel("Write a message").inputValue(), "");
    const row = page.locator(".message", { hasText: "hello <b>agent</b>" });
    assert.match(await text(row), /^ada/);
    assert.equal(await row.count(), 1, "it is shown once");
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator(".log img, .log script, .log b").count(), 0);
    await page.locator("#participants summary", { hasText: "agent" }).click();
    await page.locator("#participants .capabilities li", { hasText: "mcp/proposal" }).waitFor();
    await assertAccessible(it, "a room");
    const files = await participant("files", "talk");
    await page.locator("#participants", { hasText: "files" }).waitFor();
    assert.ok(await page.locator("#participants details[open]").isVisible(), "an open entry stays open");
    [agent, files].forEach((participant) => participant.leave());
    await messages(page).getByText("agent left.").waitFor();
    await close(it);
  },

  async "opening the call form posts nothing to the room"() {
    const agent = await participant("agent", "unposted");
    const it = await openRoom("ada", "unposted");
    const { page } = it;
    await form(page).click();
    await page.locator("#tools option[value=demo__add]").waitFor({ state: "attached" });
    await send(page, "the end");
    await agent.waitForMessage("the end", ({ payload }) => payload?.text === "the end");
    const kinds = agent.received.filter(({ from }) => from === "ada").map(({ kind }) => kind);
    assert.deepEqual(kinds, ["chat"]);
    agent.leave();
    await close(it);
  },

  /** Each row: a line, and the message that is sent or the text that is shown instead. */
  async "commands work as in the terminal or are not sent"() {
    const agent = await participant("agent", "commands");
    const it = await openRoom("ada", "commands");
    const { page } = it;
    const delivered = [];
    for (const [line, expected] of [
      ["/help", "/to PARTICIPANT TEXT address a message to a participant"],
      ["/kick agent", "Not sent: unknown command /kick."],
      ["/etc/hosts is missing", "Not sent: unknown command /etc/hosts."],
      ["/call", "Not sent; usage: /call [@PARTICIPANT] TOOL"],
      ["/call demo__add {", "Not sent: the arguments are not JSON"],
      ['/call demo__add a="1', "Not sent: missing closing quotation mark"],
      ["/call demo__add 1", 'Not sent: "1" is not key=value'],
      ["/call demo__add a=2 b=3", ["mcp/request", ["toolpost"], call("demo__add", { a: 2, b: 3 })]],
      ['/call @files read {"path": "/a"}', ["mcp/request", ["files"], call("read", { path: "/a" })]],
      ['/propose @files write text="a b" as=x', ["mcp/proposal", ["files"], call("write", { text: "a b", as: "x" })]],
      ["/to agent hello", ["chat", ["agent"], { text: "hello", format: "plain" }]],
      ["//help", ["chat", undefined, { text: "/help", format: "plain" }]],
    ]) {
      await send(page, line);
      if (Array.isArray(expected)) {
        delivered.push(expected);
        const isLast = ({ from, kind }) => from === "ada" && kind !== "mcp/response";
        const count = () => agent.received.filter(isLast).length;
        await agent.waitForMessage(line, () => count() === delivered.length);
      } else {
        await page.getByText(expected).first().waitFor();
        const isKept = line !== "/help";
        assert.equal(await page.getByLabel("Write a message").inputValue(), isKept ? line : "");
      }
    }
    await page.locator(".message.response", { hasText: '{"sum":5' }).waitFor();
    const sent = agent.received.filter(({ from }) => from === "ada");
    assert.deepEqual(sent.map(({ kind, to, payload }) => [kind, to, payload]), delivered);
    await assertAccessible(it, "the commands");
    const card = page.locator(".card", { hasText: "write" });
    await button(card, "Withdraw").click();
    await card.getByText("Withdrawn by ada").waitFor();
    agent.leave();
    await close(it);
  },

  async "approve sends the request and shows the response"() {
    const agent = await participant("agent", "approve");
    const files = await participant("files", "approve");
    const it = await openRoom("ada", "approve");
    const { page } = it;
    const payload = call("delete_file", { path: "/tmp/x", size: 12345678901234567000 });
    const id = agent.send("mcp/proposal", payload, { to: ["files"] });
    const card = page.locator(".card", { hasText: "delete_file" });
    await card.waitFor();
    assert.match(await text(card), /agent.*proposes delete_file.*Addressed to files.*"\/tmp\/x"/s);
    await page.getByText("1 pending proposal").waitFor();
    await assertAccessible(it, "a proposal");
    await button(card, "Approve").click();
    const firstRequest = await files.waitForMessage("the request", ({ kind }) => kind === "mcp/request");
    assert.deepEqual([firstRequest.from, firstRequest.to, firstRequest.correlation_id], ["ada", ["files"], [id]]);
    assert.deepEqual(firstRequest.payload, payload);
    await card.getByText("Approved by ada").waitFor();
    files.send("mcp/response", { result: { content: [{ type: "text", text: "gone" }] } }, {
      to: ["ada"],
      correlation_id: [firstRequest.id],
    });
    await card.getByText("Approved by ada. Completed by files").waitFor();
    const response = page.locator(".message.response");
    await response.waitFor();
    assert.match(await text(response), /^files.*responds to delete_file of ada result.*gone/s);
    assert.equal(await card.getByRole("button").count(), 0);
    assert.ok(await page.locator("button.pending").isHidden());
    const isFulfilled = ({ kind, payload }) =>
      kind === "system/proposal" && payload.state === "fulfilled";
    await agent.waitForMessage("the state of the proposal", isFulfilled);

    agent.send("mcp/proposal", call("fail_file", {}), { to: ["files"] });
    const second = page.locator(".card", { hasText: "fail_file" });
    await button(second, "Approve").click({ trial: true });
    await button(second, "Approve").press("Enter");
    const isSecond = ({ kind, payload }) =>
      kind === "mcp/request" && payload.params.name === "fail_file";
    const request = await files.waitForMessage("the second request", isSecond);
    files.send("mcp/response", { error: { code: -1, message: "no such file" } }, {
      to: ["ada"],
      correlation_id: [request.id],
    });
    await second.getByText("Error from files").waitFor();
    await page.locator(".message.response", { hasText: "no such file" }).waitFor();
    [agent, files].forEach((participant) => participant.leave());
    await close(it);
  },

  async "reject sends the optional reason"() {
    const agent = await participant("agent", "reject");
    const it = await openRoom("ada", "reject");
    const { page } = it;
    for (const [reason, expected] of [["", "disagree"], ["not today", "not today"]]) {
      const id = agent.send("mcp/proposal", call("delete_file", { path: `/${expected}` }));
      const card = page.locator(".card", { hasText: `"/${expected}"` });
      if (reason) await card.getByLabel("Reason for rejecting").fill(reason);
      await button(card, "Reject").click();
      const { from, to, payload } = await agent.waitForMessage("the reject", isRejectOf(id));
      assert.deepEqual([from, to, payload], ["ada", ["agent"], { reason: expected }]);
      await card.getByText(`Rejected by ada: ${expected}`).waitFor();
    }
    const id = agent.send("mcp/proposal", call("read_file", {}));
    const card = page.locator(".card", { hasText: "read_file" });
    await card.waitFor();
    agent.send("mcp/withdraw", {}, { correlation_id: [id] });
    await card.getByText("Withdrawn by agent").waitFor();
    agent.leave();
    await close(it);
  },

  async "late joiner sees the state of proposals"() {
    const agent = await participant("agent", "later");
    const open = agent.send("mcp/proposal", call("still_open", {}));
    const closed = agent.send("mcp/proposal", call("taken_back", {}));
    agent.send("mcp/withdraw", {}, { correlation_id: [closed] });
    await agent.waitForMessage("the withdrawal", ({ kind }) => kind === "mcp/withdraw");
    const it = await openRoom("ada", "later");
    const { page } = it;
    await page.locator(".card:not(.open)", { hasText: "taken_back" }).waitFor();
    await button(page.locator(".card.open", { hasText: "still_open" }), "Reject").click();
    await agent.waitForMessage("the reject", isRejectOf(open));
    agent.leave();
    await close(it);
  },

  async "participant without call capability proposes and withdraws"() {
    const it = await openRoom("agent", "propose");
    const { page } = it;
    await form(page).click();
    await page.getByLabel("Operation", { exact: true }).fill("demo__add");
    assert.ok(await page.getByRole("button", { name: "Call", exact: true }).isHidden());
    await page.getByLabel("Arguments (JSON)").fill('{"a": 1,');
    await button(page, "Propose").click();
    await page.getByText("The arguments are not JSON").waitFor();
    await page.getByLabel("Arguments (JSON)").fill('{"a": 1, "b": 2}');
    await assertAccessible(it, "the form");
    await button(page, "Propose").click();
    const card = page.locator(".card", { hasText: "demo__add" });
    await button(card, "Withdraw").click();
    await card.getByText("Withdrawn by agent").waitFor();
    await close(it, [403]);
  },

  async "rejected message shows its error"() {
    const it = await openRoom("bob", "refused");
    const { page } = it;
    await form(page).click();
    await page.getByLabel("Operation", { exact: true }).fill("demo__add");
    await page.getByLabel("Arguments (JSON)").fill('{"a": "y"}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".message.error", { hasText: "capability_violation" }).waitFor();
    await assertAccessible(it, "a rejected message");
    await close(it, [403]);
  },

  async "open gateway needs only a name to call operations"() {
    const it = await open(config.open, "/rooms");
    const { page } = it;
    await page.getByLabel("Name").fill("grace");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "lobby" }).waitFor();
    await page.locator("#own-name", { hasText: "grace" }).waitFor();
    await form(page).click();
    await page.locator("#tools option[value=demo__add]").waitFor({ state: "attached" });
    await page.getByLabel("Operation", { exact: true }).fill("demo__add");
    await page.getByText("Adds two numbers").first().waitFor();
    assert.match(await page.getByLabel("Arguments (JSON)").inputValue(), /"a"/, "an example");
    await page.getByLabel("Arguments (JSON)").fill('{"a": 2, "b": 3}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".message.response", { hasText: '{"sum":5' }).waitFor();
    await page.getByLabel("Another room").fill("other room");
    await page.keyboard.press("Enter");
    await page.locator(".message.error, .connection, h1").first().waitFor();
    await page.getByRole("link", { name: "Operations" }).click();
    await page.getByRole("link", { name: "Rooms" }).click();
    await page.getByLabel("Name").waitFor();
    await close(it);
  },

  async "reconnect shows every message exactly once"() {
    const agent = await participant("agent", "lost");
    const it = await open(config.closed, "/rooms#room=lost");
    const { page } = it;
    const sockets = [];
    let isClosed = false;
    await page.routeWebSocket(/\/ws\?/, (socket) => {
      if (isClosed) return socket.close({ code: 1012 });
      sockets.push(socket);
      socket.connectToServer();
    });
    await page.reload();
    await page.getByLabel("Token").fill("tpt_ada");
    await page.keyboard.press("Enter");
    await page.locator("#own-name", { hasText: "ada" }).waitFor();
    agent.send("chat", { text: "first" });
    await messages(page).getByText("first").waitFor();
    isClosed = true;
    await sockets[0].close({ code: 1012, reason: "on purpose" });
    await page.getByText("Connection lost").waitFor();
    await send(page, "stored");
    await page.getByText("Not connected; the message was not sent.").waitFor();
    for (let number = 1; number <= 130; number += 1)
      agent.send("chat", { text: `missed ${number}.` });
    await agent.waitForMessage("the last", ({ payload }) => payload?.text === "missed 130.");
    isClosed = false;
    await messages(page).getByText("missed 130.", { exact: true }).waitFor();
    const texts = await page.locator(".message.chat .message-text").allTextContents();
    const missed = Array.from({ length: 130 }, (_, index) => `missed ${index + 1}.`);
    assert.deepEqual(texts, ["first", ...missed]);
    assert.equal(await page.locator(".connection").textContent(), "");
    assert.equal(await page.getByLabel("Write a message").inputValue(), "stored");
    await page.keyboard.press("Enter");
    await agent.waitForMessage("the stored message", ({ payload }) => payload?.text === "stored");

    const other = await participant("ada", "lost");
    await page.getByText("replaced by a newer connection of this participant").waitFor();
    await button(page, "Rejoin").click();
    await page.locator("#participants", { hasText: "ada" }).waitFor();
    [agent, other].forEach((participant) => participant.leave());
    await close(it);
  },

  async "log follows new messages unless scrolled up"() {
    const agent = await participant("agent", "many");
    const it = await openRoom("ada", "many");
    const { page } = it;
    for (let number = 1; number <= 520; number += 1) agent.send("chat", { text: `line ${number}.` });
    await messages(page).getByText("line 520.").waitFor();
    const rows = page.locator(".log > ol > li");
    assert.equal(await rows.count(), 500, "older rows are removed");
    const scrollTop = () => messages(page).evaluate((box) => Math.round(box.scrollTop));
    const distanceToEnd = () =>
      messages(page).evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
    assert.ok((await distanceToEnd()) < 2, "the end is in view");
    await form(page).click();
    await page.waitForFunction(() => {
      const box = document.querySelector(".log");
      return box.scrollHeight - box.scrollTop - box.clientHeight < 2;
    });
    await form(page).click();
    await messages(page).evaluate((box) => (box.scrollTop = 5000));
    const visibleRow = () =>
      page.evaluate(() => document.elementFromPoint(700, 450).closest("li").textContent);
    const before = await visibleRow();
    agent.send("chat", { text: "later" });
    await button(page, "New messages").waitFor();
    assert.equal(await visibleRow(), before, "the scroll position stays");
    assert.ok((await scrollTop()) > 4000);
    await button(page, "New messages").click();
    await page.waitForFunction(() => document.querySelector(".newer").hidden);
    assert.ok((await distanceToEnd()) < 2, "the end is in view again");
    agent.leave();
    await close(it);
  },

  async "calls pending approval are approved or rejected"() {
    const it = await openRoom("ada", "calls");
    const { page } = it;
    const pay = (amount) =>
      fetch(`${config.closed}/api/bank/pay`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer tpt_agent" },
        body: JSON.stringify({ amount }),
      });
    const pending = page.getByRole("region", { name: "Calls pending approval" });
    const approved = pay(5);
    await pending.getByText("bank.pay").waitFor();
    assert.match(await text(pending), /agent.*calls bank\.pay.*"amount": 5/s);
    await assertAccessible(it, "a call pending approval");
    await button(pending, "Approve").click();
    assert.equal((await approved).status, 200);
    await pending.waitFor({ state: "hidden" });
    const rejected = pay(6);
    await pending.getByLabel("Reason for rejecting").fill("too much");
    await button(pending, "Reject").click();
    assert.match(JSON.stringify(await (await rejected).json()), /too much/);
    await close(it);
  },

  async "proposals of this room and of other rooms are shown once"() {
    const agent = await participant("agent", "once");
    const it = await openRoom("ada", "once");
    const { page } = it;
    const id = agent.send("mcp/proposal", call("delete_file", { path: "/here" }));
    await page.locator(".card", { hasText: "/here" }).waitFor();
    const entry = (room, id) => ({
      id: `${room}/${id}`,
      requestId: id,
      room,
      operation: "tools/call:delete_file",
      caller: "agent",
      input: { path: `/${room}` },
      inputDigest: "x",
    });
    await page.route("**/api/gateway/approvals", (route) =>
      route.fulfill({ json: { approvals: [entry("once", id), entry("elsewhere", "p-1")] } }),
    );
    await page.locator(".approvals .card", { hasText: "in the room elsewhere" }).waitFor();
    assert.equal(await page.locator(".card").count(), 2);
    agent.leave();
    await close(it);
  },

  async "mobile viewport and dark mode work"() {
    const agent = await participant("agent", "phone");
    const it = await openRoom("ada", "phone", {
      viewport: { width: 390, height: 844 },
      colorScheme: "dark",
      hasTouch: true,
      isMobile: true,
    });
    const { page } = it;
    agent.send("mcp/proposal", call("delete_file", { path: `/${"long".repeat(60)}` }));
    // Proposals of other rooms are listed with the pending calls.
    const card = page.locator(".card:not(.approvals .card)", { hasText: "delete_file" });
    await card.waitFor();
    const fits = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
    assert.ok(fits, "no horizontal overflow");
    await assertAccessible(it, "phone");
    await button(page, "Rooms").click();
    await page.locator("#participants summary", { hasText: "agent" }).waitFor();
    await page.keyboard.press("Escape");
    await button(card, "Reject").tap();
    await card.getByText("Rejected by ada").waitFor();
    agent.leave();
    await close(it);
  },
};

await run(steps);
