// Entry point: shows the join form if there is no token or name, then joins the room that the URL names.
import { el } from "../docs/dom.js";
import { newCaller } from "./caller.js";
import { joinForm } from "./join_form.js";
import { newParticipants } from "./participants.js";
import { openRoom } from "./room.js";
import { displayName } from "./text.js";
import { readHash, roomHash } from "./url.js";

const LOBBY = "lobby";
/** The close code for a missing or invalid token. */
const UNAUTHORIZED = 4401;

const byId = (id) => document.getElementById(id);
const [main, menu, sidebar, rooms] = ["main", "menu", "sidebar", "rooms"].map(byId);
const [ownName, leaveButton] = ["own-name", "leave"].map(byId);
const caller = newCaller();
const participants = newParticipants(byId("participants"));
const NO_ROOM = { name: "", leave: () => {} };
let currentRoom = NO_ROOM;

/** Joins the room in the URL with the token in the URL, if there is one. */
function start() {
  const { room, token } = readHash();
  if (token) caller.set({ token });
  if (!caller.hasIdentity()) return showJoinForm();
  joinRoom(room || LOBBY);
}

function showJoinForm(errorMessage) {
  currentRoom.leave();
  currentRoom = NO_ROOM;
  caller.set({ name: caller.name() });
  rooms.replaceChildren();
  ownName.textContent = "";
  leaveButton.hidden = true;
  const onSubmit = () => joinRoom(readHash().room || LOBBY);
  const { form, input } = joinForm(caller, errorMessage, onSubmit);
  main.replaceChildren(form);
  document.title = "Rooms";
  input.focus();
}

function joinRoom(name) {
  currentRoom.leave();
  const { view, leave } = openRoom(name, caller, participants, onJoined, onClosed);
  currentRoom = { name, leave };
  main.replaceChildren(view);
  document.title = `${displayName(name)} · Rooms`;
  renderRooms([LOBBY, name]);
  main.querySelector("h1").focus({ preventScroll: true });
}

function onJoined(id) {
  ownName.textContent = displayName(id);
  leaveButton.hidden = false;
  loadRooms();
}

/** A rejected join shows the join form again; a closed connection offers to rejoin. */
function onClosed({ code, reason, hasJoined }) {
  if (code === UNAUTHORIZED || (!hasJoined && !caller.hasToken())) return showJoinForm(reason);
  const rejoin = () => joinRoom(currentRoom.name);
  const rejoinButton = el("button", { type: "button", onclick: rejoin }, "Rejoin");
  main.querySelector(".connection")?.append(" ", rejoinButton);
  leaveButton.hidden = false;
}

async function loadRooms() {
  const response = await caller.request("v0.1/topics").catch(() => null);
  if (Array.isArray(response?.topics)) renderRooms([LOBBY, ...response.topics, currentRoom.name]);
}

function renderRooms(names) {
  const unique = [...new Set(names)].filter((name) => typeof name === "string" && name !== "");
  const link = (name) => {
    const ariaCurrent = name === currentRoom.name ? "page" : null;
    return el("a", { href: roomHash(name), "aria-current": ariaCurrent }, displayName(name));
  };
  const label = "Another room";
  const input = el("input", { "aria-label": label, placeholder: label, maxlength: 64 });
  const form = el("form", { class: "other" }, input, el("button", { type: "submit" }, "Go"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) location.hash = roomHash(input.value.trim());
  });
  const links = el("div", { class: "links" }, unique.map(link));
  rooms.replaceChildren(el("h2", null, "Rooms"), links, form);
}

/** On a narrow screen the sidebar covers the main content, which is inert meanwhile. */
function showSidebar(isOpen) {
  menu.setAttribute("aria-expanded", String(isOpen));
  sidebar.classList.toggle("open", isOpen);
  main.inert = isOpen;
}

addEventListener("hashchange", () => {
  showSidebar(false);
  start();
});
menu.addEventListener("click", () => showSidebar(menu.getAttribute("aria-expanded") !== "true"));
leaveButton.addEventListener("click", () => {
  caller.set({});
  showJoinForm();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !sidebar.classList.contains("open")) return;
  showSidebar(false);
  menu.focus();
});

start();
