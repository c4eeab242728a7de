// The participants of the room and their capabilities.
import { collapsible, el } from "../docs/dom.js";
import { capabilityText } from "./capability.js";
import { displayName } from "./text.js";

/** The list of participants in `container`. */
export function newParticipants(container) {
  let others = new Map();
  let self = null;
  const title = el("h2");
  const list = el("ul");
  // Views are reused, so that an open entry stays open when another participant joins or leaves.
  let views = new Map();

  const render = () => {
    const all = [...(self ? [self] : []), ...others.values()];
    const previous = views;
    const keyed = all.map((participant) => [
      JSON.stringify([participant, participant === self]),
      participant,
    ]);
    const newView = (participant) =>
      el("li", null, participantView(participant, participant === self));
    views = new Map(
      keyed.map(([key, participant]) => [key, previous.get(key) ?? newView(participant)]),
    );
    title.textContent = `Participants: ${all.length}`;
    for (const [key, view] of previous) if (!views.has(key)) view.remove();
    [...views.values()].forEach((view, index) => {
      if (list.children[index] !== view) list.insertBefore(view, list.children[index] ?? null);
    });
    if (!title.isConnected) container.replaceChildren(title, list);
  };
  return {
    /** Replaces the list with the content of a welcome. */
    load(own, participants) {
      self = own;
      const all = Array.isArray(participants) ? participants : [];
      others = new Map(all.map((participant) => [participant?.id, participant]));
      render();
    },
    add(participant) {
      others.set(participant?.id, participant);
      render();
    },
    remove(participant) {
      others.delete(participant?.id);
      render();
    },
    clear: () => container.replaceChildren(),
  };
}

function participantView({ id, capabilities }, isSelf) {
  const all = Array.isArray(capabilities) ? capabilities : [];
  const title = [displayName(id), isSelf && el("span", { class: "quiet" }, " (you)")];
  const item = (capability) => el("li", null, el("code", null, capabilityText(capability)));
  const list = () =>
    all.length > 0
      ? el("ul", { class: "capabilities" }, all.map(item))
      : el("p", { class: "quiet" }, "No capabilities.");
  return collapsible(el("span", null, title), list);
}
