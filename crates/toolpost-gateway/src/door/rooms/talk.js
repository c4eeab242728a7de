// A line to talk.
import { el } from "../docs/dom.js";
import { could } from "./capability.js";

/** `room` sends: `send(kind, fields, refused)`, and knows what its reader may: `you()`. */
export function newTalk(room) {
  const text = el("textarea", {
    id: "talk",
    rows: 1,
    "aria-label": "Say something",
    placeholder: "Say something",
    enterkeyhint: "send",
  });
  const wrong = el("p", { class: "wrong", role: "alert" });
  const button = el("button", { type: "submit", class: "primary" }, "Say");
  const form = el("form", { class: "talk" }, text, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = text.value;
    if (words.trim() === "") return;
    const restore = () => (text.value ||= words);
    const isSent = room.send("chat", { payload: { text: words, format: "plain" } }, restore);
    wrong.textContent = isSent ? "" : "Not connected; what you wrote stays here.";
    if (isSent) text.value = "";
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return {
    view: el("div", null, form, wrong),
    refresh() {
      const may = could(room.you().capabilities, "chat", { text: "" });
      text.disabled = button.disabled = !may;
      text.placeholder = may ? "Say something" : "You may not talk here";
    },
  };
}
