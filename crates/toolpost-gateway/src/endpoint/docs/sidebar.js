// The list of operations in the sidebar: all of them by namespace, or the search results.
import { el } from "./dom.js";
import { byNamespace } from "./model.js";
import { highlightParts, search } from "./search.js";

/** Links are created in blocks when they are scrolled into view: there may be thousands. */
const BLOCK_SIZE = 50;

/** Renders operations into `list` and the number of search results into `resultCount`. */
export function operationList(list, resultCount) {
  let operations = [];
  let currentId = null;
  let query = "";
  const observer = new IntersectionObserver(
    (entries) =>
      entries
        .filter(({ isIntersecting }) => isIntersecting)
        .forEach(({ target }) => fillBlock(target)),
    { root: list, rootMargin: "600px 0px" },
  );
  /** The blocks that are still empty, and the function that creates the items of each. */
  const emptyBlocks = new Map();

  const fillBlock = (block) => {
    const createItems = emptyBlocks.get(block);
    if (!createItems) return;
    emptyBlocks.delete(block);
    observer.unobserve(block);
    block.style.minHeight = "";
    block.append(...createItems());
    markCurrent();
  };
  const blocksOf = (shown, createLink, height) => {
    const blocks = [];
    for (let start = 0; start < shown.length; start += BLOCK_SIZE) {
      const slice = shown.slice(start, start + BLOCK_SIZE);
      const block = el("ul", { class: "links" });
      block.style.minHeight = `${slice.length * height}px`;
      block.ids = new Set(slice.map(({ id }) => id));
      emptyBlocks.set(block, () =>
        slice.map((operation) => el("li", null, createLink(operation, query))),
      );
      blocks.push(block);
    }
    return blocks;
  };
  const markCurrent = () => {
    for (const link of list.querySelectorAll("a[aria-current]"))
      link.removeAttribute("aria-current");
    const hash = operationHash(currentId);
    const link = [...list.querySelectorAll(".links a")].find(
      (link) => link.getAttribute("href") === hash,
    );
    link?.setAttribute("aria-current", "page");
  };
  const render = () => {
    observer.disconnect();
    emptyBlocks.clear();
    const shown = query.trim() ? search(operations, query) : operations;
    resultCount.textContent = query.trim() ? resultCountText(shown.length) : "";
    if (query.trim()) list.replaceChildren(...blocksOf(shown, resultLink, 58));
    else
      list.replaceChildren(
        ...byNamespace(shown).map(([name, members]) =>
          namespaceView(name, members, blocksOf(members, plainLink, 34)),
        ),
      );
    list.scrollTop = 0;
    for (const block of emptyBlocks.keys()) observer.observe(block);
    const firstBlock = list.querySelector(".links");
    if (firstBlock) fillBlock(firstBlock);
  };
  return {
    load(all) {
      operations = all;
      render();
    },
    search(text) {
      query = text;
      render();
    },
    /** Marks the displayed operation and scrolls its link into view. */
    setCurrent(id) {
      currentId = id;
      for (const block of [...emptyBlocks.keys()]) if (block.ids.has(id)) fillBlock(block);
      markCurrent();
      list.querySelector("a[aria-current]")?.scrollIntoView({ block: "nearest" });
    },
    firstLink: () => list.querySelector("a"),
    /** The link at this offset from `link`, or null beyond either end. */
    adjacentLink(link, offset) {
      const blocks = [...list.querySelectorAll(".links")];
      const index = blocks.indexOf(link.closest(".links"));
      [blocks[index - 1], blocks[index + 1]].forEach((block) => block && fillBlock(block));
      const links = [...list.querySelectorAll(".links a")].filter(
        (other) => other.checkVisibility?.() ?? true,
      );
      return links[links.indexOf(link) + offset] ?? null;
    },
  };
}

function operationHash(id) {
  return `#${encodeURIComponent(id ?? "")}`;
}

function resultCountText(count) {
  return count === 0 ? "No results." : `${count.toLocaleString("en")} found`;
}

function namespaceView(name, operations, blocks) {
  return el(
    "details",
    { open: true, class: "namespace" },
    el(
      "summary",
      null,
      el("span", { class: "name" }, name),
      el("span", { class: "count" }, operations.length),
    ),
    blocks,
  );
}

function plainLink({ id, name, kind, title }) {
  return el(
    "a",
    { href: operationHash(id), title: title || null },
    el("span", { class: `dot ${kind}`, title: kind }),
    el("span", { class: "name" }, name),
    el("span", { class: "visually-hidden" }, `, ${kind}`),
  );
}

function resultLink({ id, kind, title, description }, query) {
  const highlight = (text) =>
    highlightParts(text, query).map((part, index) => (index % 2 ? el("mark", null, part) : part));
  const summary = [title, description].filter(Boolean).join(" · ").slice(0, 160);
  return el(
    "a",
    { href: operationHash(id), class: "result" },
    el("span", { class: "name" }, el("span", { class: `dot ${kind}`, title: kind }), highlight(id)),
    el("span", { class: "rest" }, summary ? highlight(summary) : kind),
  );
}
