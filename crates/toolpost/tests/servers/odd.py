"""An MCP server on standard input and output that behaves as its first argument says.

    odd.py [--modern] [--version V] BEHAVIOR [N]

With --modern it speaks 2026-07-28, else a version with a handshake. Each server has the same tools
(TOOLS); what is odd happens at the start (AT_START), at a request (AT_REQUEST), in the list of tools
(LISTS) or when the tool `odd` is called (ODD). What it receives and does is appended to the file that
ODD_LOG names, a line each, so that a test can see how often something was done.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"

parser = argparse.ArgumentParser()
parser.add_argument("--modern", action="store_true")
parser.add_argument("--version", default="2025-11-25")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("behavior")
parser.add_argument("number", nargs="?", type=float, default=0)
options = parser.parse_args()

behavior, number = options.behavior, options.number
printing = threading.RLock()
calls = {}
answers = {}
listeners = []
extra_tools = []
is_greeted = threading.Event()


def record(line):
    if path := os.environ.get("ODD_LOG"):
        with open(path, "a") as log:
            log.write(line + "\n")


def recorded(line):
    with open(os.environ["ODD_LOG"]) as log:
        return log.read().splitlines().count(line)


def write(data):
    with printing:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def send(message):
    write(json.dumps(message).encode() + b"\n")


def answer(id, result):
    result = {"resultType": "complete", **result} if options.modern else result
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error(id, code, message, data=None):
    body = {"code": code, "message": message, **({"data": data} if data else {})}
    return {"jsonrpc": "2.0", "id": id, "error": body}


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def text(words):
    return {"type": "text", "text": words}


class Call:
    """One call of a tool, and the way back to whoever made it."""

    def __init__(self, id, params, send):
        self.id, self.params, self.send = id, params, send
        self.arguments = params.get("arguments") or {}
        self.cancelled = threading.Event()

    def is_cancelled(self):
        return self.cancelled.is_set()

    def result(self, *content, **members):
        self.send(answer(self.id, {"content": list(content), **members}))

    def progress(self, step, total=None):
        token = self.params.get("_meta", {}).get("progressToken")
        self.send(notification("notifications/progress", progressToken=token, progress=step,
                               **({"total": total} if total else {})))

    def ask(self, method, **params):
        """A request to the client, and its answer."""
        id = f"question-{len(answers)}"
        answers[id] = waiting = [threading.Event(), None]
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        waiting[0].wait(10)
        return waiting[1]


# The tools that every server has.


def echo(call):
    call.result(text(call.arguments.get("text", "")))


def sleep(call):
    """Sleeps until it is canceled; with `progress` it reports at every tenth of a second."""
    steps = int(call.arguments.get("seconds", 0) * 10)
    record("sleeps")
    for step in range(steps):
        if call.is_cancelled():
            return record("sleep canceled")
        if call.arguments.get("progress"):
            call.progress(step, steps)
        time.sleep(0.1)
    call.result(text("slept"))


def count(call):
    """Says how often it ran; the first time, its server dies over it."""
    tool = call.params["name"]
    record(tool)
    if recorded(tool) == 1:
        sys.stderr.write("the disk is on fire\n")
        sys.stderr.flush()
        os._exit(7)
    call.result(text(str(recorded(tool))))


def odd(call):
    ODD.get(behavior, lambda call: call.result(text("plain")))(call)


READS = {"readOnlyHint": True}
TOOLS = {"echo": (echo, READS), "sleep": (sleep, READS), "count_query": (count, READS),
         "count_mutation": (count, {}), "count_idempotent": (count, {"idempotentHint": True}),
         "odd": (odd, READS if behavior.endswith("-query") else {})}


def tool(name, **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def common_tools():
    own = [tool(name, annotations=hints) for name, (_, hints) in TOOLS.items()]
    return own + [tool(name) for name in extra_tools]


def odd_tools():
    return [
        {"inputSchema": {"type": "object"}}, {"name": 7}, "loose", None,
        tool("long" * 75), tool("echo", description="the first"), {"name": "bare"},
        tool("wrong", inputSchema={"type": "objekt"}),
        tool("afar", inputSchema={"$ref": "http://127.0.0.1:9/schema.json"}),
        tool("pattern", inputSchema={"type": "object"}, outputSchema={"pattern": "("}),
    ]


def page(tools, params, size=1000):
    start = int(params.get("cursor") or 0)
    more = {"nextCursor": str(start + size)} if start + size < len(tools) else {}
    return {"tools": tools[start:start + size], **more}


def endless(params):
    start = int(params.get("cursor") or 0)
    return {"tools": [tool(f"t{start}")], "nextCursor": str(start + 1)}


def repeating(params):
    return {"tools": [tool(f"t{params.get('cursor')}")], "nextCursor": "again"}


def many(params):
    words = ["weather", "invoice", "calendar", "photo", "route"]
    made = [tool(f"{words[i % 5]}_{i}", description=f"Handles {words[i % 5]} number {i}.")
            for i in range(int(number))]
    return page(made, params)


LISTS = {
    "odd-tools": lambda params: {"tools": odd_tools() + common_tools()},
    "many": many, "endless-pages": endless, "repeating-pages": repeating,
    "no-list": lambda params: {"tools": "none"},
}


# What `odd` does.


def every_block(call):
    notes = {"audience": ["user", "robot"], "priority": 0.25, "lastModified": "2025-01-12T15:00:58Z",
             "newer": [1]}
    more = {"annotations": notes, "_meta": {"a/b": {"c": None}}, "unknown": {"deep": [True, None]}}
    held = {"uri": "a:b", "mimeType": "text/x", "_meta": {"k": 1}, "unknown": 1}
    blocks = [
        {"type": "text", "text": "t", **more},
        {"type": "image", "data": "AA==", "mimeType": "image/png", **more},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav", **more},
        {"type": "resource", "resource": {**held, "text": "r"}, **more},
        {"type": "resource", "resource": {**held, "blob": "AA=="}, **more},
        {"type": "resource_link", "uri": "a:b", "name": "n", "title": "T", "description": "d",
         "mimeType": "text/x", "size": 3, "icons": [{"src": "a:c", "sizes": ["1x1"]}], **more},
    ]
    members = {"structuredContent": {"number": 1.5, "text": "é", "none": None}, "isError": True,
               "_meta": {"x/y": [1, {"z": None}]}, "unknown": {"member": [None]}}
    record("result " + json.dumps({"content": blocks, **members}))
    call.result(*blocks, **members)


def unknown_block(call):
    call.result(text("before"), {"type": "hologram", "data": "AA==", "depth": 3}, text("after"))


def twice(call):
    call.result(text("first"))
    call.result(text("second"))


def other_id(call):
    call.send(answer(999_999, {"content": [text("of somebody else")]}))
    call.send(answer("no-number", {"content": [text("of nobody")]}))
    call.result(text("right"))


def notifications_first(call):
    call.progress(1, 3)
    call.send(notification("notifications/message", level="info", logger="odd", data={"a": 1}))
    call.send(notification("notifications/unheard-of", anything=[1]))
    call.send(notification("notifications/progress", progressToken="nobody", progress=1))
    call.send({"jsonrpc": "2.0", "method": "notifications/bare"})
    if options.modern:
        return call.result(text("done"), structuredContent={})
    said = {method: call.ask(method, **params) for method, params in [
        ("ping", {}), ("roots/list", {}), ("sampling/createMessage", {}), ("made/up", {}),
        ("elicitation/create", {"message": "who?", "requestedSchema": {"type": "object"}})]}
    said = {method: [key for key in message if key in ("result", "error")][0]
            for method, message in said.items()}
    call.result(text("done"), structuredContent=said)


def huge(call):
    chunk = "x" * (1 << 20)
    head, tail = json.dumps(answer(call.id, {"content": [text("@")]})).split("@")
    with printing:
        for piece in (head, *[chunk] * int(number), tail, "\n"):
            write(piece.encode())


def bad_utf8(call):
    line = json.dumps(answer(call.id, {"content": [text("@")]})).encode()
    write(line.replace(b"@", b"\xff\xfe\x80") + b"\n")


def mid_line(call):
    write(json.dumps(answer(call.id, {"content": [text("cut")]})).encode()[:-20])
    os._exit(0)


def closes_output(call):
    os.close(1)


def banner(call):
    write("Welcome to ODD 1.0 — ready! {\n\n   \n".encode())
    call.result(text("done"))


def batch(call):
    both = [notification("notifications/unheard-of"), answer(call.id, {"content": [text("batched")]})]
    send(both)


def list_changed(call):
    extra_tools.append(f"new_{len(extra_tools)}")
    call.result(text("changed"))
    changed = "notifications/tools/list_changed"
    for listener, id in listeners:
        listener(notification(changed, _meta={META + "subscriptionId": id}))
    if not options.modern:
        # A burst, as of a server that registers its tools one by one.
        for _ in range(20):
            call.send(notification(changed))


def stderr_flood(call):
    for line in range(20_000):
        sys.stderr.write(f"line {line} " + "y" * 200 + "\n")
    sys.stderr.write("z" * 3_000_000)
    sys.stderr.flush()
    call.result(text("flooded"))


QUESTION = {"message": "which color?", "mode": "form", "requestedSchema": {
    "type": "object", "properties": {"color": {"type": "string", "default": "red"}},
    "required": ["color"]}}


def needs_input(call):
    if not options.modern:
        return call.result(text(json.dumps(call.ask("elicitation/create", **QUESTION))))
    capabilities = call.params["_meta"][META + "clientCapabilities"]
    if behavior == "needs-input-politely" and "elicitation" not in capabilities:
        return call.send(error(call.id, -32021, "elicitation is needed",
                               {"requiredCapabilities": {"elicitation": {}}}))
    state = {"rounds": 0} | json.loads(call.params.get("requestState") or "{}")
    if state["rounds"] < max(number, 1):
        state["rounds"] += 1
        return call.send(answer(call.id, {
            "resultType": "input_required", "requestState": json.dumps(state),
            "inputRequests": {"q": {"method": "elicitation/create", "params": QUESTION}}}))
    call.result(text(json.dumps(call.params["inputResponses"]["q"])))


ODD = {
    "every-block": every_block, "unknown-block": unknown_block, "twice": twice,
    "other-id": other_id, "notifications-first": notifications_first, "huge": huge,
    "bad-utf8": bad_utf8, "mid-line": mid_line, "closes-output": closes_output, "banner": banner,
    "batch": batch, "list-changed": list_changed, "stderr-flood": stderr_flood,
    "needs-input": needs_input, "needs-input-politely": needs_input,
    "fails": lambda call: call.send(error(call.id, -32050, "the printer is out of paper", [1])),
    "bad-params": lambda call: call.send(error(call.id, -32602, "`size` must be even")),
    "no-result": lambda call: call.send({"jsonrpc": "2.0", "id": call.id}),
    "list-result": lambda call: call.send({"jsonrpc": "2.0", "id": call.id, "result": [1]}),
    "says-error": lambda call: call.result(text("no such city"), isError=True),
    "crash": lambda call: os.abort(), "crash-query": lambda call: os.abort(),
}


# Requests.


def lacks_meta(message):
    meta = message.get("params", {}).get("_meta", {})
    needed = ("protocolVersion", "clientInfo", "clientCapabilities")
    return [name for name in needed if META + name not in meta]


def discovered(id):
    return answer(id, {"supportedVersions": [MODERN], "serverInfo": INFO,
                       "capabilities": {"tools": {"listChanged": True}}})


def initialized(id):
    capabilities = {"tools": {"listChanged": True}}
    return answer(id, {"protocolVersion": options.version, "serverInfo": INFO,
                       "capabilities": capabilities, "instructions": "Be odd."})


INFO = {"name": "odd", "version": "1.0"}


def respond(message, send):
    """What any request but the call of a tool gets, whichever way it came."""
    id, method, params = message["id"], message["method"], message.get("params", {})
    if options.modern and method == "initialize":
        return send(error(id, -32022, "unsupported protocol version", {"supported": [MODERN]}))
    if options.modern and (missing := lacks_meta(message)):
        return send(error(id, -32602, f"_meta lacks {missing}"))
    if method == "server/discover" and options.modern:
        return send(discovered(id))
    if method == "initialize":
        is_greeted.set()
        return send(initialized(id))
    if method == "tools/list":
        listed = LISTS.get(behavior, lambda params: {"tools": common_tools()})(params)
        return send(answer(id, listed))
    if method == "subscriptions/listen" and options.modern:
        meta = {META + "subscriptionId": id}
        listeners.append((send, id))
        return send(notification("notifications/subscriptions/acknowledged", _meta=meta,
                                 notifications=params["notifications"]))
    send(error(id, -32601, f"there is no {method}"))


def run(call):
    calls[call.id] = call
    known = TOOLS.get(call.params["name"])
    if known is None:
        return call.result(text(f"called {call.params['name']}"))
    known[0](call)
    calls.pop(call.id, None)


def exits_on_discover(message):
    if message["method"] == "server/discover":
        sys.stderr.write("unknown method, goodbye\n")
        sys.stderr.flush()
        os._exit(3)


def silent_before_greeting(message):
    return not is_greeted.is_set() and message["method"] != "initialize"


AT_REQUEST = {
    "silent": lambda message: True,
    "exits-on-discover": exits_on_discover,
    "slow-exits-on-discover": exits_on_discover,
    "silent-discover": silent_before_greeting,
    "silent-list": lambda message: message["method"] == "tools/list",
    "refuses": lambda message: send(error(message["id"], -32000, "no license")) or True,
}


def take(message):
    method = message.get("method")
    if method is None:
        if waiting := answers.get(message.get("id")):
            waiting[1] = message
            waiting[0].set()
        return
    record(method)
    if method == "notifications/cancelled":
        if call := calls.get(message["params"]["requestId"]):
            call.cancelled.set()
    if "id" not in message or AT_REQUEST.get(behavior, lambda message: False)(message):
        return
    if method != "tools/call":
        return respond(message, reply)
    if options.modern and lacks_meta(message):
        return respond(message, reply)
    call = Call(message["id"], message["params"], reply)
    threading.Thread(target=run, args=(call,), daemon=True).start()


def reply(message):
    if behavior == "string-ids" and "id" in message:
        message = {**message, "id": str(message["id"])}
    send(message)


def fork():
    for _ in range(2):
        child = subprocess.Popen(["sleep", "600"])
        record(f"pid {child.pid}")


AT_START = {
    "slow": lambda: time.sleep(number),
    "slow-exits-on-discover": lambda: time.sleep(number),
    "banner": lambda: write(b"Welcome to ODD 1.0\n"),
    "fork": fork,
    "dies": lambda: sys.exit("ODD_KEY is not set"),
}


def main():
    record(f"pid {os.getpid()}")
    record("starts")
    AT_START.get(behavior, lambda: None)()
    for line in sys.stdin:
        take(json.loads(line))


if __name__ == "__main__":
    main()
