// A card with buttons for a pending decision.
import { el } from "../docs/dom.js";

/** How long the buttons of a new card are disabled, so that a click meant for another element is ignored. */
const ENABLE_DELAY_MS = 300;

/**
 * A card; `view` has the class `open` while the decision is pending. Each action is a button:
 * `{name, label, isPrimary, takesReason, run(reason)}`.
 */
export function newCard(label, content) {
  const state = el("p", { class: "state" });
  const reasonInput = el("input", {
    type: "text",
    class: "reason",
    "aria-label": "Reason for rejecting",
    placeholder: "Reason (optional)",
    maxlength: 1_000,
    autocomplete: "off",
  });
  const buttonBar = el("div", { class: "buttons" });
  const attributes = { class: "card open", tabindex: -1, "aria-label": label };
  const view = el("li", attributes, content, buttonBar, state);
  const buttons = () => [...buttonBar.querySelectorAll("button")];
  const setEnabled = (isEnabled) => buttons().forEach((button) => (button.disabled = !isEnabled));
  return {
    view,
    setActions(actions) {
      const created = actions.map((action) => actionButton(action, () => reasonInput.value.trim()));
      const takesReason = actions.some((action) => action.takesReason);
      buttonBar.replaceChildren(...created, ...(takesReason ? [reasonInput] : []));
      buttonBar.hidden = created.length === 0;
      setTimeout(() => setEnabled(true), ENABLE_DELAY_MS);
    },
    /** A button was clicked and the response is pending. */
    setPending(text) {
      setEnabled(false);
      state.replaceChildren(text);
    },
    /** The action failed and can be repeated. */
    setFailed(message) {
      setEnabled(true);
      state.replaceChildren(el("span", { class: "error-text" }, message));
    },
    /** The decision was made; `tone` is `good`, `bad` or empty. */
    setDone(text, tone = "") {
      const hadFocus = buttonBar.contains(document.activeElement);
      buttonBar.remove();
      view.classList.remove("open");
      state.replaceChildren(el("span", { class: `pill ${tone}` }, text));
      if (hadFocus) view.focus();
    },
    focus: () => (buttons()[0] ?? view).focus(),
  };
}

function actionButton({ name, label, isPrimary, run }, getReason) {
  const attributes = { type: "button", class: isPrimary ? "primary" : null, "aria-label": label };
  return el("button", { ...attributes, disabled: true, onclick: () => run(getReason()) }, name);
}
