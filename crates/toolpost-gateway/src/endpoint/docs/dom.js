// Creates elements. Text always becomes a text node, because the author of the document is not
// trusted.

/** An element with attributes, listeners (`onclick: f`) and children; `null` and `false` are skipped. */
export function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return appendChildren(element, children);
}

/** Appends children; nested arrays are flattened. */
function appendChildren(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
  return parent;
}

/** A `details` element whose content is created when it is opened: schemas may be recursive. */
export function collapsible(title, createContent, attributes) {
  const body = el("div", { class: "folded" });
  const details = el("details", attributes, el("summary", null, title), body);
  const fill = () => {
    if (details.open && !body.hasChildNodes()) appendChildren(body, createContent());
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

/** A button that copies the text that `getText` returns when it is clicked. */
export function copyButton(label, getText) {
  const button = el(
    "button",
    { type: "button", class: "copy", "aria-label": `Copy ${label}` },
    "Copy",
  );
  button.addEventListener("click", async () => {
    button.textContent = (await copy(getText())) ? "Copied" : "Copy failed";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

async function copy(text) {
  // Browsers offer the clipboard API only in secure contexts: over TLS or on the same machine.
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const area = el("textarea", { class: "offscreen" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
