// Who is here, and what they may.
import { el, fold } from "../docs/dom.js";
import { described } from "./capability.js";
import { named } from "./text.js";

/** The list in `place`. */
export function newPeople(place) {
  let others = new Map();
  let you = null;
  const title = el("h2");
  const list = el("ul");
  // What is open stays open when somebody else comes or goes.
  let views = new Map();

  const draw = () => {
    const all = [...(you ? [you] : []), ...others.values()];
    const before = views;
    const keyed = all.map((one) => [JSON.stringify([one, one === you]), one]);
    const viewOf = (one) => el("li", null, personView(one, one === you));
    views = new Map(keyed.map(([key, one]) => [key, before.get(key) ?? viewOf(one)]));
    title.textContent = `Here: ${all.length}`;
    for (const [key, view] of before) if (!views.has(key)) view.remove();
    [...views.values()].forEach((view, at) => {
      if (list.children[at] !== view) list.insertBefore(view, list.children[at] ?? null);
    });
    if (!title.isConnected) place.replaceChildren(title, list);
  };
  return {
    /** As a welcome tells it. */
    load(self, list) {
      you = self;
      others = new Map((Array.isArray(list) ? list : []).map((one) => [one?.id, one]));
      draw();
    },
    come(one) {
      others.set(one?.id, one);
      draw();
    },
    go(one) {
      others.delete(one?.id);
      draw();
    },
    clear: () => place.replaceChildren(),
  };
}

function personView({ id, capabilities }, isYou) {
  const may = Array.isArray(capabilities) ? capabilities : [];
  const title = [named(id), isYou && el("span", { class: "quiet" }, " (you)")];
  const item = (one) => el("li", null, el("code", null, described(one)));
  const list = () =>
    may.length > 0
      ? el("ul", { class: "may" }, may.map(item))
      : el("p", { class: "quiet" }, "Nothing.");
  return fold(el("span", null, title), list);
}
