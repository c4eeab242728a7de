// Entry point: loads the OpenAPI document and shows the operation that the URL fragment names.
import { newApiClient, tokenForm } from "./api_client.js";
import { el } from "./dom.js";
import { jsonView } from "./json.js";
import { parseDocument } from "./model.js";
import { operationView } from "./operation.js";
import { overview } from "./overview.js";
import { operationList } from "./sidebar.js";

const byId = (id) => document.getElementById(id);
const [main, menu, sidebar, searchBox, tokenButton] = [
  "main",
  "menu",
  "sidebar",
  "search",
  "token-button",
].map(byId);
const client = newApiClient();
const list = operationList(byId("list"), byId("result-count"));
let model = null;
/** Aborts the running call of the displayed operation. */
let abortCall = () => {};

async function load() {
  if (client.requiresToken && !client.hasToken()) return promptForToken();
  try {
    model = parseDocument(await client.fetchDocument());
  } catch (error) {
    if (error.status === 401) return promptForToken(error.message);
    return showView(
      el(
        "article",
        { class: "overview" },
        el("h1", { tabindex: -1 }, "Cannot load openapi.json"),
        el("p", { class: "error-text", role: "alert" }, error.message),
        el("p", null, el("button", { type: "button", onclick: load }, "Try again")),
      ),
    );
  }
  client.requiresToken ||= model.requiresToken;
  tokenButton.hidden = !client.requiresToken;
  // A link cannot send the token.
  byId("document").hidden = client.requiresToken;
  byId("title").textContent = model.title;
  byId("version").textContent = model.version;
  list.load(model.operations);
  route();
}

function promptForToken(errorMessage) {
  client.setToken("");
  client.requiresToken = true;
  const { form, input } = tokenForm(client, errorMessage, load);
  showView(form);
  input.focus();
}

function showView(view) {
  abortCall();
  abortCall = () => {};
  main.replaceChildren(view);
  main.scrollTop = 0;
}

/** Shows the operation that the URL fragment names. */
function route() {
  if (!model) return;
  const id = operationIdFromHash();
  const operation = model.byId.get(id);
  list.setCurrent(operation?.id ?? null);
  if (operation) showOperation(operation);
  else if (id && id !== "main") showView(notFoundView(id));
  else showView(overview(model));
  document.title = operation ? `${operation.id} · ${model.title}` : model.title;
}

/** Shows an operation; an invalid schema is an error of this operation only. */
function showOperation(operation) {
  try {
    const { view, abort } = operationView(model, operation, client);
    showView(view);
    abortCall = abort;
  } catch (error) {
    showView(
      el(
        "article",
        { class: "overview" },
        el("h1", { tabindex: -1 }, operation.title || operation.name),
        el(
          "p",
          { class: "error-text", role: "alert" },
          `This operation cannot be shown: ${error.message}`,
        ),
        jsonView(JSON.stringify(operation.call), "As in openapi.json"),
      ),
    );
  }
}

function operationIdFromHash() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return location.hash.slice(1);
  }
}

function notFoundView(id) {
  return el(
    "article",
    { class: "overview" },
    el("h1", { tabindex: -1 }, "No such operation"),
    el("p", null, el("code", null, id), " does not exist, or this caller cannot access it."),
    el("p", null, el("a", { href: "#" }, "All operations")),
  );
}

/** On a narrow screen the sidebar covers the main content, which is inert meanwhile. */
function showSidebar(isOpen) {
  menu.setAttribute("aria-expanded", String(isOpen));
  sidebar.classList.toggle("open", isOpen);
  main.inert = isOpen;
  if (isOpen) searchBox.focus();
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  showSidebar(false);
  route();
  main.querySelector("h1")?.focus({ preventScroll: true });
});

menu.addEventListener("click", () => showSidebar(menu.getAttribute("aria-expanded") !== "true"));
tokenButton.addEventListener("click", () => promptForToken());
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
    if (getComputedStyle(menu).display !== "none") showSidebar(true);
    searchBox.focus();
    searchBox.select();
  }
  if (event.key === "Escape" && sidebar.classList.contains("open")) {
    showSidebar(false);
    menu.focus();
  }
});

searchBox.addEventListener("keydown", (event) => {
  const firstLink = list.firstLink();
  if (event.key === "Enter" && searchBox.value.trim()) firstLink?.click();
  else if (event.key === "ArrowDown") firstLink?.focus();
  else return;
  event.preventDefault();
});

byId("list").addEventListener("keydown", (event) => {
  const link = event.target.closest(".links a");
  const offset = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!link || !offset) return;
  event.preventDefault();
  (list.adjacentLink(link, offset) ?? (offset < 0 ? searchBox : link)).focus();
});

load();
