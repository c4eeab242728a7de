// Begins: finds out who comes and where to, then goes there.
import { el } from "../docs/dom.js";
import { addressOf, readAddress } from "./address.js";
import { newCaller } from "./caller.js";
import { newPeople } from "./people.js";
import { enterRoom } from "./room.js";
import { signInView } from "./signin.js";
import { named } from "./text.js";

const LOBBY = "lobby";
/** The goodbye to somebody who is not known. */
const UNKNOWN = 4401;

const byId = (id) => document.getElementById(id);
const [main, menu, side, rooms] = ["main", "menu", "side", "rooms"].map(byId);
const [you, leaving] = ["you", "leave"].map(byId);
const caller = newCaller();
const people = newPeople(byId("people"));
let place = { name: "", leave: () => {} };

/** Goes where the address says, as whom it says. */
function begin() {
  const { room, token } = readAddress();
  if (token) caller.set({ token });
  if (!caller.isKnown()) return signIn();
  enter(room || LOBBY);
}

function signIn(words) {
  place.leave();
  place = { name: "", leave: () => {} };
  caller.set({ name: caller.name() });
  rooms.replaceChildren();
  you.textContent = "";
  leaving.hidden = true;
  const { form, input } = signInView(caller, words, () => enter(readAddress().room || LOBBY));
  main.replaceChildren(form);
  document.title = "Rooms";
  input.focus();
}

function enter(name) {
  place.leave();
  const entered = enterRoom(name, caller, people, arrived, ended);
  place = { name, leave: entered.leave };
  main.replaceChildren(entered.view);
  document.title = `${named(name)} · Rooms`;
  drawRooms([LOBBY, name]);
  main.querySelector("h1").focus({ preventScroll: true });
}

function arrived(id) {
  you.textContent = named(id);
  leaving.hidden = false;
  list();
}

/** Whoever was not let in may say once more who he is; whoever was may come back. */
function ended({ code, words, wasHere }) {
  if (code === UNKNOWN || (!wasHere && !caller.hasToken())) return signIn(words);
  const again = el("button", { type: "button", onclick: () => enter(place.name) }, "Come in again");
  main.querySelector(".connection")?.append(" ", again);
  leaving.hidden = false;
}

async function list() {
  const answer = await caller.ask("v0.1/topics").catch(() => null);
  if (Array.isArray(answer?.topics)) drawRooms([LOBBY, ...answer.topics, place.name]);
}

function drawRooms(all) {
  const found = [...new Set(all)].filter((name) => typeof name === "string" && name !== "");
  const link = (name) => {
    const isHere = name === place.name;
    return el("a", { href: addressOf(name), "aria-current": isHere ? "page" : null }, named(name));
  };
  const words = "Another room";
  const other = el("input", { "aria-label": words, placeholder: words, maxlength: 100 });
  const form = el("form", { class: "other" }, other, el("button", { type: "submit" }, "Go"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (other.value.trim()) location.hash = addressOf(other.value.trim());
  });
  const links = el("div", { class: "links" }, found.map(link));
  rooms.replaceChildren(el("h2", null, "Rooms"), links, form);
}

/** On a narrow screen the list lies over the page, which then is out of reach. */
function showSide(isOpen) {
  menu.setAttribute("aria-expanded", String(isOpen));
  side.classList.toggle("open", isOpen);
  main.inert = isOpen;
}

addEventListener("hashchange", () => {
  showSide(false);
  begin();
});
menu.addEventListener("click", () => showSide(menu.getAttribute("aria-expanded") !== "true"));
leaving.addEventListener("click", () => {
  caller.set({});
  signIn();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !side.classList.contains("open")) return;
  showSide(false);
  menu.focus();
});

begin();
