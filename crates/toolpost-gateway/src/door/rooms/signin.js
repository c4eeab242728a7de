// Asks who comes.
import { el } from "../docs/dom.js";

/** The form; `done` is told when it is filled in. */
export function signInView(caller, words, done) {
  const token = el("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    placeholder: "tpt_…",
  });
  const name = el("input", {
    id: "name",
    type: "text",
    autocomplete: "nickname",
    spellcheck: "false",
    autocapitalize: "off",
    maxlength: 100,
  });
  const wrong = el("p", { class: "wrong", role: "alert" }, words ?? "");
  name.value = caller.name();
  const form = el(
    "form",
    { class: "token" },
    el("h1", { tabindex: -1 }, "Who is coming?"),
    el("p", null, explained(caller)),
    wrong,
    !caller.asksToken && [el("label", { for: "name" }, "Name"), name],
    el("label", { for: "token" }, caller.asksToken ? "Token" : "Token, if you have one"),
    token,
    el("div", { class: "buttons" }, el("button", { class: "primary", type: "submit" }, "Come in")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    caller.set({ token: token.value, name: name.value });
    if (!caller.isKnown()) {
      wrong.textContent = caller.asksToken ? "A token is needed." : "A name is needed.";
      return;
    }
    token.value = "";
    done();
  });
  return { form, input: caller.asksToken ? token : name };
}

function explained({ asksToken }) {
  const kept =
    "A token stays in the memory of this page, and is gone when the page is closed or loaded again.";
  return asksToken
    ? `In a room everybody is known by his token. ${kept}`
    : `This gateway takes the name that you say, unless a token belongs to it. ${kept}`;
}
