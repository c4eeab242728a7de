// The calls that wait for approval at the gateway, for those whose token lets them see it.
import { el } from "../docs/dom.js";
import { newCard } from "./card.js";
import { named, whole } from "./text.js";

/** How long to wait before looking again, in milliseconds. */
const EVERY = 4_000;
/** Answers after which there is nothing to look for. */
const NEVER = new Set([401, 403, 404]);

/** `isShown` says of an entry whether it has a card already; `you` is who decides here. */
export function newApprovals(caller, isShown, you) {
  const cards = new Map();
  const list = el("ul");
  const view = el(
    "section",
    { class: "approvals", "aria-label": "Calls that wait for approval", hidden: true },
    el("h2", null, "Calls that wait for approval"),
    list,
  );
  let timer = 0;
  let isLeft = false;

  const draw = (entries) => {
    const waiting = new Map(entries.filter((one) => !isShown(one)).map((one) => [one.id, one]));
    for (const [id, card] of cards) {
      if (waiting.has(id)) continue;
      card.view.remove();
      cards.delete(id);
    }
    for (const [id, entry] of waiting) {
      if (cards.has(id)) continue;
      cards.set(id, cardOf(entry, you(), decide));
      list.append(cards.get(id).view);
    }
    view.hidden = cards.size === 0;
  };

  const look = async () => {
    clearTimeout(timer);
    if (isLeft || !caller.hasToken() || document.visibilityState !== "visible") return;
    try {
      const answer = await caller.ask("api/gateway/approvals", {});
      if (!isLeft) draw(Array.isArray(answer?.approvals) ? answer.approvals : []);
    } catch (error) {
      if (NEVER.has(error.status)) return leave();
    }
    clearTimeout(timer);
    timer = setTimeout(look, EVERY);
  };

  const decide = async (card, words, operation, input) => {
    card.begin(words);
    try {
      await caller.ask(`api/gateway/${operation}`, input);
      card.end(operation === "approve" ? "Approved" : "Rejected");
    } catch (error) {
      card.again(error.message);
    }
    look();
  };

  const leave = () => {
    isLeft = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
  const begin = () => {
    document.addEventListener("visibilitychange", look);
    look();
  };
  return { view, begin, leave };
}

function cardOf(entry, you, decide) {
  const { id, operation, caller, room, input, inputDigest } = entry;
  const who = named(caller ?? "the gateway");
  const what = named(operation);
  const where = room && ` in the room ${named(room)}`;
  const isOwn = caller === you;
  const approve = {
    name: "Approve",
    label: `Approve ${what} of ${who}`,
    isFirst: true,
    run: () => decide(card, "Approving…", "approve", { id, inputDigest }),
  };
  const reject = {
    name: "Reject",
    label: `Reject ${what} of ${who}`,
    takesReason: true,
    run: (reason) => decide(card, "Rejecting…", "reject", reason ? { id, reason } : { id }),
  };
  const card = newCard(
    `Call of ${who}: ${what}`,
    [
      el(
        "div",
        { class: "head" },
        el("strong", { class: "who" }, who),
        el("span", { class: "does" }, "calls ", el("code", null, what), where),
      ),
      whole(input, "Input"),
      isOwn && el("p", { class: "quiet" }, "Somebody else has to decide about your own call."),
    ],
  );
  card.offer(isOwn ? [] : [approve, reject]);
  return card;
}
