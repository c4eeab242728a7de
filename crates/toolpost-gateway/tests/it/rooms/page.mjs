// Uses the page at /rooms as people do.
import assert from "node:assert/strict";
import { accessible, close, open, run, told } from "../browser/chromium.mjs";
import { could, described } from "../../../src/door/rooms/capability.js";
import { participant } from "./participant.mjs";

const text = (locator) => locator.evaluate((element) => element.textContent);
const messages = (page) => page.getByRole("log", { name: "Messages" });
const button = (place, name) => place.getByRole("button", { name });
const form = (page) => page.locator("summary", { hasText: "Call an operation" });
const call = (name, args) => ({ method: "tools/call", params: { name, arguments: args } });

const rejects =
  (id) =>
  ({ kind, correlation_id: about }) =>
    kind === "mcp/reject" && about[0] === id;

/** The page of somebody in a room. */
async function come(name, room, options) {
  const it = await open(told.closed, `/rooms#room=${room}&token=tpt_${name}`, options);
  await it.page.locator("#you", { hasText: name }).waitFor();
  return it;
}

async function say(page, words) {
  await page.getByLabel("Say something").fill(words);
  await page.keyboard.press("Enter");
}

const steps = {
  /** Each row: a capability, a kind and a payload, whether it may be allowed, and how it is shown. */
  async "what may be allowed has a button"() {
    const read = call("read_file", { path: "/a" });
    const [list, request] = [{ method: "tools/list", params: {} }, "mcp/request"];
    const named = (name) => ({ kind: request, payload: { ...read, params: { name } } });
    for (const [capability, kind, payload, expected, shown] of [
      ["*", request, read, true, "*"],
      ["mcp/*", request, read, true, "mcp/*"],
      ["chat", request, read, false, "chat"],
      ["mcp/request:tools/call:read_*", request, read, true, "mcp/request:tools/call:read_*"],
      [{ kind: "*" }, request, read, true, "*"],
      [{ kind: "chat" }, "chat", { text: "" }, true, "chat"],
      [named("read_*"), request, read, true, "mcp/request tools/call read_*"],
      [named("write_*"), request, read, false, "mcp/request tools/call write_*"],
      [named("read_*"), request, list, false, "mcp/request tools/call read_*"],
      [named("*_*_file"), request, read, false, "mcp/request tools/call *_*_file"],
      [named(["a", "read_file"]), request, read, true, null],
      // What this page does not read the gateway decides.
      [named("/^read/"), request, read, true, "mcp/request tools/call /^read/"],
      [named("!write"), request, read, true, "mcp/request tools/call !write"],
      [{ kind: request, payload: { "**": "x" } }, request, read, true, null],
      [null, request, read, false, "null"],
    ]) {
      const row = JSON.stringify([capability, kind, payload]);
      assert.equal(could([capability], kind, payload), expected, row);
      assert.equal(described(capability), shown ?? JSON.stringify(capability), row);
    }
  },

  async "a token is asked for, a wrong one is told, and it is kept nowhere"() {
    const it = await open(told.closed, "/rooms#room=tokens");
    const { page, context } = it;
    await page.getByRole("heading", { name: "Who is coming?" }).waitFor();
    await accessible(it, "token");
    await button(page, "Come in").click();
    await page.getByText("A token is needed.").waitFor();
    await page.getByLabel("Token").fill("tpt_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("this token is not known here").waitFor();
    await page.getByLabel("Token").fill("tpt_ada");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "tokens" }).waitFor();
    await page.locator("#you", { hasText: "ada" }).waitFor();
    await page.locator(".links a[aria-current]", { hasText: "tokens" }).waitFor();
    assert.equal(await text(page.locator(".links a").first()), "lobby");
    await page.goto(`${told.closed}/docs`);
    await page.goto(`${told.closed}/rooms#token=tpt_ada&room=tokens`);
    await page.locator("#you", { hasText: "ada" }).waitFor();
    assert.equal(new URL(page.url()).hash, "#room=tokens", "the token is not in the address");
    const kept = await page.evaluate(() => ({
      page: document.documentElement.outerHTML,
      local: { ...localStorage },
      session: { ...sessionStorage },
      cookies: document.cookie,
    }));
    const all = JSON.stringify([kept, await context.storageState(), it.seen]);
    assert.ok(!all.includes("tpt_ada"), "the token is only in memory");
    await button(page, "Leave").click();
    await page.getByRole("heading", { name: "Who is coming?" }).waitFor();
    await close(it);
  },

  async "people and agents talk, and what they say stays text"() {
    const agent = await participant("agent", "talk");
    agent.say("chat", { text: "before" });
    const it = await come("ada", "talk");
    const { page } = it;
    await messages(page).getByText("before").waitFor();
    agent.say("chat", { text: told.hostile });
    await messages(page).getByText(told.hostile).waitFor();
    agent.say("odd/kind", { [told.hostile]: told.hostile });
    agent.say("chat", { text: "turned \u202e around" });
    await messages(page).getByText("turned \\u202e around").waitFor();
    await say(page, "hello <b>agent</b>");
    const isChat = ({ from, kind }) => from === "ada" && kind === "chat";
    const heard = await agent.hears("the chat", isChat);
    assert.equal(heard.payload.text, "hello <b>agent</b>");
    assert.equal(await page.getByLabel("Say something").inputValue(), "");
    const row = page.locator(".message", { hasText: "hello <b>agent</b>" });
    assert.match(await text(row), /^ada/);
    assert.equal(await row.count(), 1, "it is shown once");
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator(".log img, .log script, .log b").count(), 0);
    await page.locator("#people summary", { hasText: "agent" }).click();
    await page.locator("#people .may li", { hasText: "mcp/proposal" }).waitFor();
    await accessible(it, "a room");
    const files = await participant("files", "talk");
    await page.locator("#people", { hasText: "files" }).waitFor();
    assert.ok(await page.locator("#people details[open]").isVisible(), "what is open stays open");
    [agent, files].forEach((one) => one.leave());
    await messages(page).getByText("agent has left.").waitFor();
    await close(it);
  },

  async "one click approves: the tool is asked, and its answer shown"() {
    const agent = await participant("agent", "approve");
    const files = await participant("files", "approve");
    const it = await come("ada", "approve");
    const { page } = it;
    const payload = call("delete_file", { path: "/tmp/x", size: 12345678901234567000 });
    const id = agent.say("mcp/proposal", payload, { to: ["files"] });
    const card = page.locator(".card", { hasText: "delete_file" });
    await card.waitFor();
    assert.match(await text(card), /agent.*proposes delete_file.*done by files.*"\/tmp\/x"/s);
    await page.getByText("1 proposal waits").waitFor();
    await accessible(it, "a proposal");
    await button(card, "Approve").click();
    const asked = await files.hears("the request", ({ kind }) => kind === "mcp/request");
    assert.deepEqual([asked.from, asked.to, asked.correlation_id], ["ada", ["files"], [id]]);
    assert.deepEqual(asked.payload, payload);
    await card.getByText("Approved by ada").waitFor();
    files.say("mcp/response", { result: { content: [{ type: "text", text: "gone" }] } }, {
      to: ["ada"],
      correlation_id: [asked.id],
    });
    await card.getByText("Approved by ada. Done by files").waitFor();
    const answer = page.locator(".message.reply");
    await answer.waitFor();
    assert.match(await text(answer), /^files.*answers delete_file of ada result.*gone/s);
    assert.equal(await card.getByRole("button").count(), 0);
    assert.ok(await page.locator(".waits").isHidden());
    const isTold = ({ kind, payload }) =>
      kind === "system/proposal" && payload.state === "fulfilled";
    await agent.hears("what became of it", isTold);

    agent.say("mcp/proposal", call("fail_file", {}), { to: ["files"] });
    const second = page.locator(".card", { hasText: "fail_file" });
    await button(second, "Approve").click({ trial: true });
    await button(second, "Approve").press("Enter");
    const isSecond = ({ kind, payload }) =>
      kind === "mcp/request" && payload.params.name === "fail_file";
    const request = await files.hears("the second request", isSecond);
    files.say("mcp/response", { error: { code: -1, message: "no such file" } }, {
      to: ["ada"],
      correlation_id: [request.id],
    });
    await second.getByText("Failed at files").waitFor();
    await page.locator(".message.reply", { hasText: "no such file" }).waitFor();
    [agent, files].forEach((one) => one.leave());
    await close(it);
  },

  async "one click rejects, with a reason if there is one"() {
    const agent = await participant("agent", "reject");
    const it = await come("ada", "reject");
    const { page } = it;
    for (const [reason, expected] of [["", "disagree"], ["not today", "not today"]]) {
      const id = agent.say("mcp/proposal", call("delete_file", { path: `/${expected}` }));
      const card = page.locator(".card", { hasText: `"/${expected}"` });
      if (reason) await card.getByLabel("Reason for rejecting").fill(reason);
      await button(card, "Reject").click();
      const { from, to, payload } = await agent.hears("the reject", rejects(id));
      assert.deepEqual([from, to, payload], ["ada", ["agent"], { reason: expected }]);
      await card.getByText(`Rejected by ada: ${expected}`).waitFor();
    }
    const id = agent.say("mcp/proposal", call("read_file", {}));
    const card = page.locator(".card", { hasText: "read_file" });
    await card.waitFor();
    agent.say("mcp/withdraw", {}, { correlation_id: [id] });
    await card.getByText("Withdrawn by agent").waitFor();
    agent.leave();
    await close(it);
  },

  async "whoever comes later sees what became of proposals"() {
    const agent = await participant("agent", "later");
    const open = agent.say("mcp/proposal", call("still_open", {}));
    const closed = agent.say("mcp/proposal", call("taken_back", {}));
    agent.say("mcp/withdraw", {}, { correlation_id: [closed] });
    await agent.hears("its own word", ({ kind }) => kind === "mcp/withdraw");
    const it = await come("ada", "later");
    const { page } = it;
    await page.locator(".card:not(.open)", { hasText: "taken_back" }).waitFor();
    await button(page.locator(".card.open", { hasText: "still_open" }), "Reject").click();
    await agent.hears("the reject", rejects(open));
    agent.leave();
    await close(it);
  },

  async "who may only propose proposes, and takes it back"() {
    const it = await come("agent", "propose");
    const { page } = it;
    await form(page).click();
    await page.getByLabel("Operation", { exact: true }).fill("demo__add");
    assert.ok(await page.getByRole("button", { name: "Call", exact: true }).isHidden());
    await page.getByLabel("Arguments, as JSON").fill('{"a": 1,');
    await button(page, "Propose").click();
    await page.getByText("The arguments are not JSON").waitFor();
    await page.getByLabel("Arguments, as JSON").fill('{"a": 1, "b": 2}');
    await accessible(it, "the form");
    await button(page, "Propose").click();
    const card = page.locator(".card", { hasText: "demo__add" });
    await button(card, "Withdraw").click();
    await card.getByText("Withdrawn by agent").waitFor();
    await close(it, [403]);
  },

  async "what the gateway refuses is told"() {
    const it = await come("bob", "refused");
    const { page } = it;
    await form(page).click();
    await page.getByLabel("Operation", { exact: true }).fill("demo__add");
    await page.getByLabel("Arguments, as JSON").fill('{"a": "y"}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".message.error", { hasText: "capability_violation" }).waitFor();
    await accessible(it, "a refusal");
    await close(it, [403]);
  },

  async "without tokens a name is enough, and operations are called"() {
    const it = await open(told.open, "/rooms");
    const { page } = it;
    await page.getByLabel("Name").fill("grace");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "lobby" }).waitFor();
    await page.locator("#you", { hasText: "grace" }).waitFor();
    await form(page).click();
    await page.locator("#tools option[value=demo__add]").waitFor({ state: "attached" });
    await page.getByLabel("Operation", { exact: true }).fill("demo__add");
    await page.getByText("Adds two numbers").first().waitFor();
    assert.match(await page.getByLabel("Arguments, as JSON").inputValue(), /"a"/, "an example");
    await page.getByLabel("Arguments, as JSON").fill('{"a": 2, "b": 3}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".message.reply", { hasText: '{"sum":5' }).waitFor();
    await page.getByLabel("Another room").fill("other room");
    await page.keyboard.press("Enter");
    await page.locator(".message.error, .connection, h1").first().waitFor();
    await page.getByRole("link", { name: "Operations" }).click();
    await page.getByRole("link", { name: "Rooms" }).click();
    await page.getByLabel("Name").waitFor();
    await close(it);
  },

  async "a lost connection comes back, and nothing is shown twice or missed"() {
    const agent = await participant("agent", "lost");
    const it = await open(told.closed, "/rooms#room=lost");
    const { page } = it;
    const ways = [];
    let isClosed = false;
    await page.routeWebSocket(/\/ws\?/, (way) => {
      if (isClosed) return way.close({ code: 1012 });
      ways.push(way);
      way.connectToServer();
    });
    await page.reload();
    await page.getByLabel("Token").fill("tpt_ada");
    await page.keyboard.press("Enter");
    await page.locator("#you", { hasText: "ada" }).waitFor();
    agent.say("chat", { text: "first" });
    await messages(page).getByText("first").waitFor();
    isClosed = true;
    await ways[0].close({ code: 1012, reason: "on purpose" });
    await page.getByText("The connection was lost").waitFor();
    await say(page, "kept");
    await page.getByText("Not connected; what you wrote stays here.").waitFor();
    for (let number = 1; number <= 130; number += 1)
      agent.say("chat", { text: `missed ${number}.` });
    await agent.hears("the last", ({ payload }) => payload?.text === "missed 130.");
    isClosed = false;
    await messages(page).getByText("missed 130.", { exact: true }).waitFor();
    const said = await page.locator(".message.chat .said").allTextContents();
    const expected = ["first", ...Array.from({ length: 130 }, (_, at) => `missed ${at + 1}.`)];
    assert.deepEqual(said, expected);
    assert.equal(await page.locator(".connection").textContent(), "");
    assert.equal(await page.getByLabel("Say something").inputValue(), "kept");
    await page.keyboard.press("Enter");
    await agent.hears("what was kept", ({ payload }) => payload?.text === "kept");

    const other = await participant("ada", "lost");
    await page.getByText("you have joined from somewhere else").waitFor();
    await button(page, "Come in again").click();
    await page.locator("#people", { hasText: "ada" }).waitFor();
    [agent, other].forEach((one) => one.leave());
    await close(it);
  },

  async "the newest is at the end, and whoever has scrolled up stays there"() {
    const agent = await participant("agent", "many");
    const it = await come("ada", "many");
    const { page } = it;
    for (let number = 1; number <= 520; number += 1) agent.say("chat", { text: `line ${number}.` });
    await messages(page).getByText("line 520.").waitFor();
    const rows = page.locator(".log > ol > li");
    assert.equal(await rows.count(), 500, "older ones make room");
    const place = () => messages(page).evaluate((box) => Math.round(box.scrollTop));
    const rest = () =>
      messages(page).evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
    assert.ok((await rest()) < 2, "the end is in view");
    await form(page).click();
    await page.waitForFunction(() => {
      const box = document.querySelector(".log");
      return box.scrollHeight - box.scrollTop - box.clientHeight < 2;
    });
    await form(page).click();
    await messages(page).evaluate((box) => (box.scrollTop = 5000));
    const seen = () =>
      page.evaluate(() => document.elementFromPoint(700, 450).closest("li").textContent);
    const before = await seen();
    agent.say("chat", { text: "later" });
    await button(page, "New messages").waitFor();
    assert.equal(await seen(), before, "what is read stays where it is");
    assert.ok((await place()) > 4000);
    await button(page, "New messages").click();
    await page.waitForFunction(() => document.querySelector(".newer").hidden);
    assert.ok((await rest()) < 2, "the end is in view again");
    agent.leave();
    await close(it);
  },

  async "calls that wait at the gateway are decided about"() {
    const it = await come("ada", "calls");
    const { page } = it;
    const pay = (amount) =>
      fetch(`${told.closed}/api/bank/pay`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer tpt_agent" },
        body: JSON.stringify({ amount }),
      });
    const waiting = page.getByRole("region", { name: "Calls that wait for approval" });
    const paying = pay(5);
    await waiting.getByText("bank.pay").waitFor();
    assert.match(await text(waiting), /agent.*calls bank\.pay.*"amount": 5/s);
    await accessible(it, "a call that waits");
    await button(waiting, "Approve").click();
    assert.equal((await paying).status, 200);
    await waiting.waitFor({ state: "hidden" });
    const refused = pay(6);
    await waiting.getByLabel("Reason for rejecting").fill("too much");
    await button(waiting, "Reject").click();
    assert.match(JSON.stringify(await (await refused).json()), /too much/);
    await close(it);
  },

  async "a proposal of the room is shown once, one of another room beside it"() {
    const agent = await participant("agent", "once");
    const it = await come("ada", "once");
    const { page } = it;
    const id = agent.say("mcp/proposal", call("delete_file", { path: "/here" }));
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

  async "it works on a phone, in the dark"() {
    const agent = await participant("agent", "phone");
    const it = await come("ada", "phone", {
      viewport: { width: 390, height: 844 },
      colorScheme: "dark",
      hasTouch: true,
      isMobile: true,
    });
    const { page } = it;
    agent.say("mcp/proposal", call("delete_file", { path: `/${"long".repeat(60)}` }));
    const card = page.locator(".card", { hasText: "delete_file" });
    await card.waitFor();
    const fits = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
    assert.ok(fits, "nothing sticks out");
    await accessible(it, "phone");
    await button(page, "Rooms").click();
    await page.locator("#people summary", { hasText: "agent" }).waitFor();
    await page.keyboard.press("Escape");
    await button(card, "Reject").tap();
    await card.getByText("Rejected by ada").waitFor();
    agent.leave();
    await close(it);
  },
};

await run(steps);
