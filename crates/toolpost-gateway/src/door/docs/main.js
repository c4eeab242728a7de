// Begins: reads the document, then shows what the address names.
import { el } from "./dom.js";
import { jsonView } from "./json.js";
import { read } from "./model.js";
import { operationView } from "./operation.js";
import { overview } from "./overview.js";
import { newSession, tokenView } from "./session.js";
import { sideList } from "./side.js";

const byId = (id) => document.getElementById(id);
const [main, menu, side, searchBox, who] = ["main", "menu", "side", "search", "who"].map(byId);
const session = newSession();
const list = sideList(byId("list"), byId("found"));
let model = null;
/** Ends what the operation on the page has under way. */
let leave = () => {};

async function load() {
  if (session.asksToken && !session.hasToken()) return askToken();
  try {
    model = read(await session.document());
  } catch (error) {
    if (error.status === 401) return askToken(error.message);
    return put(
      el(
        "article",
        { class: "overview" },
        el("h1", { tabindex: -1 }, "The document cannot be read"),
        el("p", { class: "wrong", role: "alert" }, error.message),
        el("p", null, el("button", { type: "button", onclick: load }, "Try again")),
      ),
    );
  }
  session.asksToken ||= model.asksToken;
  who.hidden = !session.asksToken;
  // A link shows no token.
  byId("document").hidden = session.asksToken;
  byId("title").textContent = model.title;
  byId("version").textContent = model.version;
  list.load(model.operations);
  route();
}

function askToken(words) {
  session.setToken("");
  session.asksToken = true;
  const { form, input } = tokenView(session, words, load);
  put(form);
  input.focus();
}

function put(view) {
  leave();
  leave = () => {};
  main.replaceChildren(view);
  main.scrollTop = 0;
}

/** Shows the operation that the address names. */
function route() {
  if (!model) return;
  const id = named();
  const operation = model.byId.get(id);
  list.show(operation?.id ?? null);
  if (operation) show(operation);
  else if (id && id !== "main") put(missing(id));
  else put(overview(model));
  document.title = operation ? `${operation.id} · ${model.title}` : model.title;
}

/** What cannot be drawn, because its schema is none, does not take the others with it. */
function show(operation) {
  try {
    const shown = operationView(model, operation, session);
    put(shown.view);
    leave = shown.leave;
  } catch (error) {
    put(
      el(
        "article",
        { class: "overview" },
        el("h1", { tabindex: -1 }, operation.title || operation.name),
        el(
          "p",
          { class: "wrong", role: "alert" },
          `This operation cannot be shown: ${error.message}`,
        ),
        jsonView(JSON.stringify(operation.call), "As the document has it"),
      ),
    );
  }
}

function named() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return location.hash.slice(1);
  }
}

function missing(id) {
  return el(
    "article",
    { class: "overview" },
    el("h1", { tabindex: -1 }, "No such operation"),
    el("p", null, el("code", null, id), " is not here, or not for this caller."),
    el("p", null, el("a", { href: "#" }, "All operations")),
  );
}

/** On a narrow screen the list lies over the page, which then is out of reach. */
function showSide(isOpen) {
  menu.setAttribute("aria-expanded", String(isOpen));
  side.classList.toggle("open", isOpen);
  main.inert = isOpen;
  if (isOpen) searchBox.focus();
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  showSide(false);
  route();
  main.querySelector("h1")?.focus({ preventScroll: true });
});

menu.addEventListener("click", () => showSide(menu.getAttribute("aria-expanded") !== "true"));
who.addEventListener("click", () => askToken());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
searchBox.addEventListener("input", () => list.search(searchBox.value));

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    if (getComputedStyle(menu).display !== "none") showSide(true);
    searchBox.focus();
    searchBox.select();
  }
  if (event.key === "Escape" && side.classList.contains("open")) {
    showSide(false);
    menu.focus();
  }
});

searchBox.addEventListener("keydown", (event) => {
  const first = list.first();
  if (event.key === "Enter" && searchBox.value.trim()) first?.click();
  else if (event.key === "ArrowDown") first?.focus();
  else return;
  event.preventDefault();
});

byId("list").addEventListener("keydown", (event) => {
  const link = event.target.closest(".links a");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!link || !step) return;
  event.preventDefault();
  (list.beside(link, step) ?? (step < 0 ? searchBox : link)).focus();
});

load();
