// The form that calls or proposes an operation of the gateway in the room.
import { el } from "../docs/dom.js";
import { exampleOf } from "../docs/example.js";
import { parseExact } from "../docs/json.js";
import { withLocalDefs } from "../docs/model.js";
import { mayAllow } from "./capability.js";
import { TOOLPOST } from "./command.js";
import { displayName } from "./text.js";

/** Maximum number of pages of tools to request. */
const MAX_PAGES = 20;

/**
 * The form. `room` sends its messages: `send(kind, fields)`; and `room.self()` is the participant of
 * this page. The operations are listed by the MCP endpoint, so the room gets no message.
 */
export function newCallForm(room, caller) {
  const tools = new Map();
  const toolOptions = el("datalist", { id: "tools" });
  const toolInput = el("input", {
    id: "tool",
    list: "tools",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
  });
  const argumentsInput = el(
    "textarea",
    { id: "input", class: "mono", rows: 4, spellcheck: "false" },
    "{}",
  );
  const description = el("p", { class: "quiet", id: "tool-description" });
  const errorText = el("p", { class: "error-text", role: "alert" });
  const callButton = el("button", { type: "submit", class: "primary" }, "Call");
  const proposeButton = el("button", { type: "button" }, "Propose");
  const form = el(
    "form",
    { class: "call-form" },
    el("label", { for: "tool" }, "Operation"),
    toolInput,
    toolOptions,
    description,
    el("label", { for: "input" }, "Arguments (JSON)"),
    argumentsInput,
    errorText,
    el("div", { class: "buttons" }, callButton, proposeButton),
  );
  const view = el("details", { class: "raw call" }, el("summary", null, "Call an operation"), form);
  let isListRequested = false;
  let hasTypedArguments = false;

  const toolName = () => toolInput.value.trim();
  const parseArguments = () => parseExact(argumentsInput.value.trim() || "{}");
  const payloadOf = (args) => ({
    method: "tools/call",
    params: { name: toolName(), arguments: args },
  });
  const refresh = () => {
    const { capabilities } = room.self();
    const payload = payloadOf(valueOr({}, parseArguments));
    callButton.hidden = !mayAllow(capabilities, "mcp/request", payload, [TOOLPOST]);
    proposeButton.hidden = !mayAllow(capabilities, "mcp/proposal", payload, [TOOLPOST]);
    proposeButton.className = callButton.hidden ? "primary" : "";
    const isDenied = callButton.hidden && proposeButton.hidden;
    description.textContent = isDenied
      ? "You can neither call nor propose this operation."
      : displayName(tools.get(toolName())?.description ?? "");
  };
  const send = (kind) => {
    errorText.textContent = "";
    try {
      const payload = payloadOf(parseArguments());
      if (!toolInput.reportValidity()) return;
      if (!room.send(kind, { to: [TOOLPOST], payload })) errorText.textContent = "Not connected.";
    } catch (error) {
      errorText.textContent = `The arguments are not JSON: ${error.message}`;
    }
  };
  const loadTools = async () => {
    let cursor;
    for (let page = 1; page <= MAX_PAGES; page += 1) {
      const params = cursor ? { cursor } : {};
      const message = { jsonrpc: "2.0", id: page, method: "tools/list", params };
      const { result } = await caller.request("mcp?tools=all", message);
      for (const tool of Array.isArray(result?.tools) ? result.tools : []) {
        if (typeof tool?.name !== "string" || tools.has(tool.name)) continue;
        tools.set(tool.name, tool);
        toolOptions.append(el("option", { value: tool.name }, displayName(tool.title ?? "")));
      }
      refresh();
      cursor = result?.nextCursor;
      if (!cursor) return;
    }
  };

  view.addEventListener("toggle", () => {
    if (!view.open) return;
    if (!isListRequested) {
      isListRequested = true;
      // Without the list, a name can be typed.
      loadTools().catch(() => (isListRequested = false));
    }
    refresh();
    toolInput.focus();
  });
  toolInput.addEventListener("input", () => {
    const schema = tools.get(toolName())?.inputSchema;
    const example =
      schema && !hasTypedArguments ? exampleOf(withLocalDefs({}, schema), { schema }) : undefined;
    if (example !== undefined) argumentsInput.value = JSON.stringify(example, null, 2);
    refresh();
  });
  argumentsInput.addEventListener("input", () => {
    hasTypedArguments = argumentsInput.value.trim() !== "";
    refresh();
  });
  proposeButton.addEventListener("click", () => send("mcp/proposal"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(callButton.hidden ? "mcp/proposal" : "mcp/request");
  });
  return { view, refresh };
}

/** The result of `parse`, or the fallback while the text is incomplete. */
function valueOr(fallback, parse) {
  try {
    return parse();
  } catch {
    return fallback;
  }
}
