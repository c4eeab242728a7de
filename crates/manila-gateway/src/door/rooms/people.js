// Who is here, and what they may.
import { el, fold } from "../docs/dom.js";
import { described } from "./capability.js";
import { named } from "./text.js";

/** The list in `place`. */
export function newPeople(place) {
  let others = new Map();
  let you = null;

  const draw = () => {
    const all = [...(you ? [you] : []), ...others.values()];
    place.replaceChildren(
      el("h2", null, `Here: ${all.length}`),
      el("ul", null, all.map((one) => el("li", null, personView(one, one === you)))),
    );
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
  const list = () =>
    may.length > 0
      ? el("ul", { class: "may" }, may.map((one) => el("li", null, el("code", null, described(one)))))
      : el("p", { class: "quiet" }, "Nothing.");
  return fold(el("span", null, title), list);
}
