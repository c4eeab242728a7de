// A form to call an operation of the gateway in the room, or to propose it.
import { el } from "../docs/dom.js";
import { exampleOf } from "../docs/example.js";
import { exact } from "../docs/json.js";
import { around } from "../docs/model.js";
import { could } from "./capability.js";
import { named } from "./text.js";

/** The operations of the gateway, as a participant. */
const TOOLPOST = "toolpost";
/** How many pages of tools are asked for. */
const PAGES = 20;

/** `room` asks and sends: `ask(payload, to, answered)`, `send(kind, fields)`, `you()`. */
export function newCalling(room) {
  const tools = new Map();
  const choices = el("datalist", { id: "tools" });
  const tool = el("input", {
    id: "tool",
    list: "tools",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
  });
  const input = el("textarea", { id: "input", class: "mono", rows: 4, spellcheck: "false" }, "{}");
  const about = el("p", { class: "quiet", id: "tool-words" });
  const wrong = el("p", { class: "wrong", role: "alert" });
  const call = el("button", { type: "submit", class: "primary" }, "Call");
  const propose = el("button", { type: "button" }, "Propose");
  const form = el(
    "form",
    { class: "calling" },
    el("label", { for: "tool" }, "Operation"),
    tool,
    choices,
    about,
    el("label", { for: "input" }, "Arguments, as JSON"),
    input,
    wrong,
    el("div", { class: "buttons" }, call, propose),
  );
  const view = el("details", { class: "raw call" }, el("summary", null, "Call an operation"), form);
  let isAsked = false;
  let isTyped = false;

  const read = () => exact(input.value.trim() || "{}");
  const payloadOf = (args) => ({
    method: "tools/call",
    params: { name: tool.value.trim(), arguments: args },
  });
  const refresh = () => {
    const { capabilities } = room.you();
    const payload = payloadOf(readOr({}, read));
    call.hidden = !could(capabilities, "mcp/request", payload);
    propose.hidden = !could(capabilities, "mcp/proposal", payload);
    propose.className = call.hidden ? "primary" : "";
    const isNeither = call.hidden && propose.hidden;
    about.textContent = isNeither
      ? "You may neither call nor propose this."
      : named(tools.get(tool.value.trim())?.description ?? "");
  };
  const send = (kind) => {
    wrong.textContent = "";
    try {
      const payload = payloadOf(read());
      if (!tool.reportValidity()) return;
      if (!room.send(kind, { to: [TOOLPOST], payload })) wrong.textContent = "Not connected.";
    } catch (error) {
      wrong.textContent = `The arguments are not JSON: ${error.message}`;
    }
  };
  const list = (cursor, page) => {
    const payload = { method: "tools/list", params: cursor ? { cursor } : {} };
    if (!could(room.you().capabilities, "mcp/request", payload)) return;
    isAsked = room.ask(payload, [TOOLPOST], ({ result }) => {
      for (const one of Array.isArray(result?.tools) ? result.tools : []) {
        if (typeof one?.name !== "string" || tools.has(one.name)) continue;
        tools.set(one.name, one);
        choices.append(el("option", { value: one.name }, named(one.title ?? "")));
      }
      if (result?.nextCursor && page < PAGES) list(result.nextCursor, page + 1);
      refresh();
    });
  };

  view.addEventListener("toggle", () => {
    if (!view.open) return;
    if (!isAsked) list(null, 1);
    refresh();
    tool.focus();
  });
  tool.addEventListener("input", () => {
    const schema = tools.get(tool.value.trim())?.inputSchema;
    const example = schema && !isTyped ? exampleOf(around({}, schema), { schema }) : undefined;
    if (example !== undefined) input.value = JSON.stringify(example, null, 2);
    refresh();
  });
  input.addEventListener("input", () => {
    isTyped = input.value.trim() !== "";
    refresh();
  });
  propose.addEventListener("click", () => send("mcp/proposal"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(call.hidden ? "mcp/proposal" : "mcp/request");
  });
  return { view, refresh };
}

/** What is not finished yet is nothing yet. */
function readOr(nothing, read) {
  try {
    return read();
  } catch {
    return nothing;
  }
}
