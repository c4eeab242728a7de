// Server-sent events from a body: `EventSource` can neither POST nor show a token.

/** Reads a body by the rules of the HTML standard; gives `{type, id, data}` one by one. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let event = fresh("");
  let left = "";
  let afterReturn = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      // A line feed behind a carriage return is the same end of a line, also in the next piece.
      const text = left + (afterReturn && value.startsWith("\n") ? value.slice(1) : value);
      afterReturn = value === "" ? afterReturn : value.endsWith("\r");
      const lines = text.split(/\r\n|\r|\n/);
      left = lines.pop();
      for (const line of lines) {
        if (line !== "") take(event, line);
        else {
          if (event.data.length)
            yield { type: event.type || "message", id: event.id, data: event.data.join("\n") };
          event = fresh(event.id);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function fresh(id) {
  return { type: "", id, data: [] };
}

function take(event, line) {
  const [, field, value] = /^([^:]*)(?:: ?)?([^]*)$/.exec(line);
  if (field === "event") event.type = value;
  else if (field === "data") event.data.push(value);
  else if (field === "id" && !value.includes("\0")) event.id = value;
}
