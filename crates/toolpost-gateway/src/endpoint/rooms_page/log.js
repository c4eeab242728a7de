// The message log of a room, newest message last.
import { el } from "../docs/dom.js";

/** Maximum number of rows; older ones are removed, except pending proposals. */
const MAX_ROWS = 500;
/** The distance from the end that still counts as scrolled to the end, in pixels. */
const END_TOLERANCE_PX = 40;

export function newLog() {
  const list = el("ol");
  const scrollBox = el(
    "div",
    { class: "log", tabindex: 0, role: "log", "aria-live": "polite", "aria-label": "Messages" },
    list,
  );
  // A log that was scrolled to the end stays there when it is resized.
  let wasAtEnd = true;
  const newerButton = el(
    "button",
    { type: "button", class: "newer", hidden: true },
    "New messages",
  );
  const isAtEnd = () =>
    scrollBox.scrollHeight - scrollBox.scrollTop - scrollBox.clientHeight < END_TOLERANCE_PX;
  // The log does not scroll while a pending card is hovered or focused.
  const isInteracting = () => list.querySelector(".open:hover, .open:focus-within") !== null;
  const scrollToEnd = () => (scrollBox.scrollTop = scrollBox.scrollHeight);

  const removeOldest = () => {
    if (list.childElementCount <= MAX_ROWS) return;
    const oldest = [...list.children].find((row) => !row.classList.contains("open"));
    const height = scrollBox.scrollHeight;
    oldest?.remove();
    scrollBox.scrollTop -= height - scrollBox.scrollHeight;
  };

  newerButton.addEventListener("click", () => {
    scrollToEnd();
    scrollBox.focus();
  });
  scrollBox.addEventListener("scroll", () => {
    wasAtEnd = isAtEnd();
    if (wasAtEnd) newerButton.hidden = true;
  });
  new ResizeObserver(() => wasAtEnd && scrollToEnd()).observe(scrollBox);
  return {
    view: el("div", { class: "log-container" }, scrollBox, newerButton),
    /** Appends a row; a log that was scrolled up keeps its position. */
    add(row) {
      const isFollowing = isAtEnd() && !isInteracting();
      list.append(row);
      removeOldest();
      if (isFollowing) scrollToEnd();
      else newerButton.hidden = isAtEnd();
    },
    /** Runs `addRows` without screen reader announcements. */
    withoutAnnouncements(addRows) {
      scrollBox.setAttribute("aria-live", "off");
      addRows();
      requestAnimationFrame(() => scrollBox.setAttribute("aria-live", "polite"));
    },
  };
}
