// The list of operations: all of them by namespace, or those that were searched for.
import { el } from "./dom.js";
import { byNamespace } from "./model.js";
import { marked, search } from "./search.js";

/** Links are made in blocks, when they come near the eye: there may be thousands. */
const BLOCK = 50;

/** Fills `list`, and says in `found` how many there are. */
export function sideList(list, found) {
  let operations = [];
  let current = null;
  let query = "";
  const near = new IntersectionObserver(
    (seen) =>
      seen.filter(({ isIntersecting }) => isIntersecting).forEach(({ target }) => fill(target)),
    { root: list, rootMargin: "600px 0px" },
  );
  const waiting = new Map();

  const fill = (block) => {
    const make = waiting.get(block);
    if (!make) return;
    waiting.delete(block);
    near.unobserve(block);
    block.style.minHeight = "";
    block.append(...make());
    mark();
  };
  const blocks = (chosen, makeLink, height) => {
    const made = [];
    for (let from = 0; from < chosen.length; from += BLOCK) {
      const part = chosen.slice(from, from + BLOCK);
      const block = el("ul", { class: "links" });
      block.style.minHeight = `${part.length * height}px`;
      block.ids = new Set(part.map(({ id }) => id));
      waiting.set(block, () => part.map((operation) => el("li", null, makeLink(operation, query))));
      made.push(block);
    }
    return made;
  };
  const mark = () => {
    for (const link of list.querySelectorAll("a[aria-current]"))
      link.removeAttribute("aria-current");
    const address = addressOf(current);
    const link = [...list.querySelectorAll(".links a")].find(
      (link) => link.getAttribute("href") === address,
    );
    link?.setAttribute("aria-current", "page");
  };
  const draw = () => {
    near.disconnect();
    waiting.clear();
    const chosen = query.trim() ? search(operations, query) : operations;
    found.textContent = query.trim() ? words(chosen.length) : "";
    if (query.trim()) list.replaceChildren(...blocks(chosen, resultLink, 58));
    else
      list.replaceChildren(
        ...byNamespace(chosen).map(([name, part]) =>
          spaceView(name, part, blocks(part, plainLink, 34)),
        ),
      );
    list.scrollTop = 0;
    for (const block of waiting.keys()) near.observe(block);
    const first = list.querySelector(".links");
    if (first) fill(first);
  };
  return {
    load(all) {
      operations = all;
      draw();
    },
    search(text) {
      query = text;
      draw();
    },
    /** Marks the operation that is shown, and brings its link into view. */
    show(id) {
      current = id;
      for (const block of [...waiting.keys()]) if (block.ids.has(id)) fill(block);
      mark();
      list.querySelector("a[aria-current]")?.scrollIntoView({ block: "nearest" });
    },
    first: () => list.querySelector("a"),
    /** The link so many places after this one, or null at an end. */
    beside(link, step) {
      const all = [...list.querySelectorAll(".links")];
      const at = all.indexOf(link.closest(".links"));
      [all[at - 1], all[at + 1]].forEach((block) => block && fill(block));
      const links = [...list.querySelectorAll(".links a")].filter(
        (other) => other.checkVisibility?.() ?? true,
      );
      return links[links.indexOf(link) + step] ?? null;
    },
  };
}

export function addressOf(id) {
  return `#${encodeURIComponent(id ?? "")}`;
}

function words(count) {
  return count === 0 ? "Nothing was found." : `${count.toLocaleString("en")} found`;
}

function spaceView(name, part, blocks) {
  return el(
    "details",
    { open: true, class: "space" },
    el(
      "summary",
      null,
      el("span", { class: "name" }, name),
      el("span", { class: "count" }, part.length),
    ),
    blocks,
  );
}

function plainLink({ id, name, kind, title }) {
  return el(
    "a",
    { href: addressOf(id), title: title || null },
    el("span", { class: `dot ${kind}`, title: kind }),
    el("span", { class: "name" }, name),
    el("span", { class: "unseen" }, `, ${kind}`),
  );
}

function resultLink({ id, kind, title, description }, query) {
  const show = (text) =>
    marked(text, query).map((piece, index) => (index % 2 ? el("mark", null, piece) : piece));
  const rest = [title, description].filter(Boolean).join(" · ").slice(0, 160);
  return el(
    "a",
    { href: addressOf(id), class: "result" },
    el("span", { class: "name" }, el("span", { class: `dot ${kind}`, title: kind }), show(id)),
    el("span", { class: "rest" }, rest ? show(rest) : kind),
  );
}
