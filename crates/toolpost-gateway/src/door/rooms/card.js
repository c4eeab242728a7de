// Something that waits for somebody's word.
import { el } from "../docs/dom.js";

/** How long a new card cannot be clicked, in milliseconds: the click was for what was there before. */
const UNREADY = 300;

/**
 * A card that waits: `view` has the class `open` as long as it does. What it offers are buttons,
 * each `{name, label, isFirst, takesReason, run(reason)}`.
 */
export function newCard(label, parts) {
  const state = el("p", { class: "state" });
  const reason = el("input", {
    type: "text",
    class: "reason",
    "aria-label": "Reason for rejecting",
    placeholder: "Reason, if any",
    maxlength: 1_000,
    autocomplete: "off",
  });
  const bar = el("div", { class: "buttons" });
  const attributes = { class: "card open", tabindex: -1, "aria-label": label };
  const view = el("li", attributes, parts, bar, state);
  const buttons = () => [...bar.querySelectorAll("button")];
  const enable = (isEnabled) => buttons().forEach((button) => (button.disabled = !isEnabled));
  return {
    view,
    offer(actions) {
      const all = actions.map((action) => buttonOf(action, () => reason.value.trim()));
      const takesReason = actions.some((action) => action.takesReason);
      bar.replaceChildren(...all, ...(takesReason ? [reason] : []));
      bar.hidden = all.length === 0;
      setTimeout(() => enable(true), UNREADY);
    },
    /** Somebody has clicked, and it is not known yet what comes of it. */
    begin(words) {
      enable(false);
      state.replaceChildren(words);
    },
    /** Nothing came of it. */
    again(words) {
      enable(true);
      state.replaceChildren(el("span", { class: "wrong" }, words));
    },
    /** It waits no more; what became of it is `good`, `bad` or neither. */
    end(words, tone = "") {
      const hadFocus = bar.contains(document.activeElement);
      bar.remove();
      view.classList.remove("open");
      state.replaceChildren(el("span", { class: `pill ${tone}` }, words));
      if (hadFocus) view.focus();
    },
    focus: () => (buttons()[0] ?? view).focus(),
  };
}

function buttonOf({ name, label, isFirst, run }, reason) {
  const attributes = { type: "button", class: isFirst ? "primary" : null, "aria-label": label };
  return el("button", { ...attributes, disabled: true, onclick: () => run(reason()) }, name);
}
