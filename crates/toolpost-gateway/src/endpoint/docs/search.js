// Ranked search. An operation must match every term of the query; the matched field determines the
// score.

/** The score of a fuzzy match. */
const FUZZY = 3;

/** The matching operations, best first. */
export function search(operations, query) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = [];
  for (const operation of operations) {
    const entry = entryOf(operation);
    const scores = terms.map((term) => scoreOf(entry, term));
    const lowest = Math.min(...scores);
    if (lowest > 0)
      matches.push({
        operation,
        isFuzzy: lowest === FUZZY,
        score: scores.reduce((sum, score) => sum + score),
      });
  }
  matches.sort((a, b) => b.score - a.score || a.operation.name.length - b.operation.name.length);
  // Fuzzy matches are shown only if there is no other match.
  const hasExact = matches.some(({ isFuzzy }) => !isFuzzy);
  return matches.filter(({ isFuzzy }) => !(hasExact && isFuzzy)).map(({ operation }) => operation);
}

/** The lower-case fields of each operation, cached because a search runs at every keystroke. */
const entries = new WeakMap();

function entryOf(operation) {
  let entry = entries.get(operation);
  if (!entry) {
    const lower = (text) => text.toLowerCase();
    entry = {
      id: lower(operation.id),
      name: lower(operation.name),
      parts: splitName(operation.name),
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
function splitName(name) {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean);
}

function scoreOf({ id, name, parts, title, tags, kind, description }, term) {
  if (id === term || name === term) return 100;
  if (name.startsWith(term)) return 80;
  if (id.startsWith(term)) return 60;
  if (parts.some((part) => part.startsWith(term))) return 55;
  if (tags.includes(term)) return 45;
  if (name.includes(term)) return 40;
  if (title.startsWith(term)) return 38;
  if (title.includes(` ${term}`)) return 35;
  if (id.includes(term)) return 30;
  if (title.includes(term)) return 25;
  if (tags.some((tag) => tag.startsWith(term))) return 22;
  if (kind === term) return 20;
  if (description.includes(` ${term}`) || description.startsWith(term)) return 12;
  if (description.includes(term)) return 8;
  return term.length > 2 && isSubsequence(term, id) ? FUZZY : 0;
}

/** Whether the text contains the letters of the term in this order, with others between them. */
function isSubsequence(term, text) {
  let start = 0;
  for (const letter of term) {
    start = text.indexOf(letter, start) + 1;
    if (start === 0) return false;
  }
  return true;
}

/** Splits a string at the terms of the query: every second part is a match. */
export function highlightParts(text, query) {
  const terms = query
    .split(/\s+/)
    .filter(Boolean)
    .map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return terms.length ? text.split(new RegExp(`(${terms.join("|")})`, "i")) : [text];
}
