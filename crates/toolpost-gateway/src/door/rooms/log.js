// The messages of a room, the newest at the end.
import { el } from "../docs/dom.js";

/** How many rows stay; older ones make room, but not those that wait for somebody. */
const SHOWN = 500;
/** How far from the end is still the end, in pixels. */
const NEAR = 40;

export function newLog() {
  const list = el("ol");
  const box = el(
    "div",
    { class: "log", tabindex: 0, role: "log", "aria-live": "polite", "aria-label": "Messages" },
    list,
  );
  // Whoever reads the end still does when a form takes some of the place.
  let wasAtEnd = true;
  const newer = el("button", { type: "button", class: "newer", hidden: true }, "New messages");
  const isAtEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
  // Nothing moves away under the hand of somebody who is about to decide.
  const isHeld = () => list.querySelector(".open:hover, .open:focus-within") !== null;
  const toEnd = () => (box.scrollTop = box.scrollHeight);

  const shorten = () => {
    if (list.childElementCount <= SHOWN) return;
    const oldest = [...list.children].find((row) => !row.classList.contains("open"));
    const height = box.scrollHeight;
    oldest?.remove();
    box.scrollTop -= height - box.scrollHeight;
  };

  newer.addEventListener("click", () => {
    toEnd();
    box.focus();
  });
  box.addEventListener("scroll", () => {
    wasAtEnd = isAtEnd();
    if (wasAtEnd) newer.hidden = true;
  });
  new ResizeObserver(() => wasAtEnd && toEnd()).observe(box);
  return {
    view: el("div", { class: "log-place" }, box, newer),
    /** A row at the end; whoever has scrolled up stays where he is. */
    add(row) {
      const follows = isAtEnd() && !isHeld();
      list.append(row);
      shorten();
      if (follows) toEnd();
      else newer.hidden = isAtEnd();
    },
    /** Rows that are not news, and are not read out. */
    quietly(add) {
      box.setAttribute("aria-live", "off");
      add();
      requestAnimationFrame(() => box.setAttribute("aria-live", "polite"));
    },
  };
}
