// The form for a token or a name.
import { el } from "../docs/dom.js";

/** The form; `onSubmit` is called after a token or a name was set. */
export function joinForm(caller, errorMessage, onSubmit) {
  const tokenInput = el("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    placeholder: "tpt_…",
  });
  const nameInput = el("input", {
    id: "name",
    type: "text",
    autocomplete: "nickname",
    spellcheck: "false",
    autocapitalize: "off",
    maxlength: 100,
  });
  const errorText = el("p", { class: "error-text", role: "alert" }, errorMessage ?? "");
  nameInput.value = caller.name();
  const form = el(
    "form",
    { class: "token" },
    el("h1", { tabindex: -1 }, "Join a room"),
    el("p", null, explanation(caller)),
    errorText,
    !caller.requiresToken && [el("label", { for: "name" }, "Name"), nameInput],
    el("label", { for: "token" }, caller.requiresToken ? "Token" : "Token (optional)"),
    tokenInput,
    el("div", { class: "buttons" }, el("button", { class: "primary", type: "submit" }, "Join")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    caller.set({ token: tokenInput.value, name: nameInput.value });
    if (!caller.hasIdentity()) {
      errorText.textContent = caller.requiresToken ? "A token is required." : "A name is required.";
      return;
    }
    tokenInput.value = "";
    onSubmit();
  });
  return { form, input: caller.requiresToken ? tokenInput : nameInput };
}

function explanation({ requiresToken }) {
  return requiresToken
    ? "This gateway requires a token. It is kept in memory only and is lost when the page is closed or reloaded."
    : "Enter a name that no configured identity has.";
}
