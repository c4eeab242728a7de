// Ranked search. Every word of the query has to stand somewhere; where it stands is what it counts.

const LOOSE = 3;

/** The operations that fit, best first. */
export function search(operations, query) {
  const asked = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const operation of operations) {
    const entry = entryOf(operation);
    const counts = asked.map((word) => rank(entry, word));
    const least = Math.min(...counts);
    if (least > 0)
      found.push({
        operation,
        isLoose: least === LOOSE,
        score: counts.reduce((sum, count) => sum + count),
      });
  }
  found.sort((a, b) => b.score - a.score || a.operation.name.length - b.operation.name.length);
  // Letters that only stand in the right order are an answer where there is no better one.
  const isSure = found.some(({ isLoose }) => !isLoose);
  return found.filter(({ isLoose }) => !(isSure && isLoose)).map(({ operation }) => operation);
}

/** In lower case, once: a search runs at every key. */
const entries = new WeakMap();

function entryOf(operation) {
  let entry = entries.get(operation);
  if (!entry) {
    const lower = (text) => text.toLowerCase();
    entry = {
      id: lower(operation.id),
      name: lower(operation.name),
      parts: parts(operation.name),
      title: lower(operation.title),
      tags: operation.tags.map(lower),
      kind: operation.kind,
      description: lower(operation.description),
    };
    entries.set(operation, entry);
  }
  return entry;
}

/** `issues/listAll` is `issues`, `list`, `all`. */
function parts(name) {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean);
}

function rank({ id, name, parts, title, tags, kind, description }, word) {
  if (id === word || name === word) return 100;
  if (name.startsWith(word)) return 80;
  if (id.startsWith(word)) return 60;
  if (parts.some((part) => part.startsWith(word))) return 55;
  if (tags.includes(word)) return 45;
  if (name.includes(word)) return 40;
  if (title.startsWith(word)) return 38;
  if (title.includes(` ${word}`)) return 35;
  if (id.includes(word)) return 30;
  if (title.includes(word)) return 25;
  if (tags.some((tag) => tag.startsWith(word))) return 22;
  if (kind === word) return 20;
  if (description.includes(` ${word}`) || description.startsWith(word)) return 12;
  if (description.includes(word)) return 8;
  return word.length > 2 && isSpread(word, id) ? LOOSE : 0;
}

/** Whether the letters stand there in this order, with others between them. */
function isSpread(word, text) {
  let from = 0;
  for (const letter of word) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return false;
  }
  return true;
}

/** The pieces of a text, of which every second one was asked for. */
export function marked(text, query) {
  const asked = query
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return asked.length ? text.split(new RegExp(`(${asked.join("|")})`, "i")) : [text];
}
