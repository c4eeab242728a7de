// Parses server-sent events from a response body: `EventSource` can neither POST nor send a token.

/** Parses a body as the HTML standard specifies; yields `{type, id, data}` for each event. */
export async function* parseEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let event = newEvent("");
  let partialLine = "";
  let endedWithCr = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      // CR LF is one line ending, also when the LF is in the next chunk.
      const text = partialLine + (endedWithCr && value.startsWith("\n") ? value.slice(1) : value);
      endedWithCr = value === "" ? endedWithCr : value.endsWith("\r");
      const lines = text.split(/\r\n|\r|\n/);
      partialLine = lines.pop();
      for (const line of lines) {
        if (line !== "") parseField(event, line);
        else {
          if (event.data.length)
            yield { type: event.type || "message", id: event.id, data: event.data.join("\n") };
          event = newEvent(event.id);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function newEvent(id) {
  return { type: "", id, data: [] };
}

function parseField(event, line) {
  const [, field, value] = /^([^:]*)(?:: ?)?([^]*)$/.exec(line);
  if (field === "event") event.type = value;
  else if (field === "data") event.data.push(value);
  else if (field === "id" && !value.includes("\0")) event.id = value;
}
