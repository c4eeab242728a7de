// The form that sends chat messages and commands.
import { el } from "../docs/dom.js";
import { mayAllow } from "./capability.js";
import { parseLine } from "./command.js";
import { displayName } from "./text.js";

/**
 * The form. `room` sends the message: `send(kind, fields, onError)`; `room.note(text)` shows a note,
 * and `room.self()` is the participant of this page.
 */
export function newChatForm(room) {
  const textInput = el("textarea", {
    id: "chat",
    rows: 1,
    "aria-label": "Write a message",
    placeholder: "Write a message",
    enterkeyhint: "send",
  });
  const errorText = el("p", { class: "error-text", role: "alert" });
  const sendButton = el("button", { type: "submit", class: "primary" }, "Send");
  const form = el("form", { class: "chat-form" }, textInput, sendButton);
  const submit = ({ kind, fields, notes }, text) => {
    const restoreText = () => (textInput.value ||= text);
    notes?.forEach(room.note);
    const isDone = notes || room.send(kind, fields, restoreText);
    errorText.textContent = isDone ? "" : "Not connected; the message was not sent.";
    if (isDone) textInput.value = "";
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = textInput.value;
    if (text.trim() === "") return;
    try {
      submit(parseLine(text), text);
    } catch (error) {
      errorText.textContent = displayName(error.message);
    }
  });
  textInput.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return {
    view: el("div", null, form, errorText),
    refresh() {
      const isAllowed = mayAllow(room.self().capabilities, "chat", { text: "" });
      textInput.disabled = sendButton.disabled = !isAllowed;
      textInput.placeholder = isAllowed ? "Write a message" : "You cannot send messages here";
    },
  };
}
