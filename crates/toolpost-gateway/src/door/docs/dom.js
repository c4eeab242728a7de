// Elements. Texts become text nodes and nothing else: what a document says about itself may have
// been written by anybody.

/** An element with attributes, listeners (`onclick: f`) and children; `null` and `false` are none. */
export function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return put(element, children);
}

/** Adds children, in lists of lists if need be. */
export function put(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
  return parent;
}

/** A part that is closed at first, and is made when somebody opens it: schemas may be endless. */
export function fold(title, make, attributes) {
  const body = el("div", { class: "folded" });
  const details = el("details", attributes, el("summary", null, title), body);
  const fill = () => {
    if (details.open && !body.hasChildNodes()) put(body, make());
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

/** A button that copies a text, which is asked for when it is pressed. */
export function copyButton(what, text) {
  const button = el(
    "button",
    { type: "button", class: "copy", "aria-label": `Copy ${what}` },
    "Copy",
  );
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text())) ? "Copied" : "Not allowed";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

async function copy(text) {
  // Where the page is served without TLS to another machine, browsers have no clipboard for it.
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const area = el("textarea", { class: "aside" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
