"""An MCP server on standard input and output that misbehaves as its BEHAVIOR argument selects.

    misbehaving_server.py [--modern] [--version V] BEHAVIOR [N]

The protocol version is 2026-07-28 with --modern, or else V, a version with a handshake. Each server has
the same tools (TOOLS); it misbehaves at startup (STARTUP_BEHAVIORS), at a request (REQUEST_BEHAVIORS), in
the list of tools (LIST_BEHAVIORS) or when the tool `odd` is called (CALL_BEHAVIORS). Each received method
and each action is appended as a line to the file that ODD_LOG names, so that a test can count them.
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
output_lock = threading.RLock()
calls = {}
client_responses = {}
listeners = []
extra_tools = []
is_initialized = threading.Event()


def record(line):
    if path := os.environ.get("ODD_LOG"):
        with open(path, "a") as log:
            log.write(line + "\n")


def record_count(line):
    with open(os.environ["ODD_LOG"]) as log:
        return log.read().splitlines().count(line)


def write(data):
    with output_lock:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def send(message):
    write(json.dumps(message).encode() + b"\n")


def response(id, result):
    result = {"resultType": "complete", **result} if options.modern else result
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error(id, code, message, data=None):
    body = {"code": code, "message": message, **({"data": data} if data else {})}
    return {"jsonrpc": "2.0", "id": id, "error": body}


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def text(value):
    return {"type": "text", "text": value}


class Call:
    """A tool call and the function that sends messages to its client."""

    def __init__(self, id, params, send):
        self.id, self.params, self.send = id, params, send
        self.arguments = params.get("arguments") or {}
        self.canceled = threading.Event()

    def is_canceled(self):
        return self.canceled.is_set()

    def result(self, *content, **members):
        self.send(response(self.id, {"content": list(content), **members}))

    def progress(self, step, total=None):
        token = self.params.get("_meta", {}).get("progressToken")
        self.send(notification("notifications/progress", progressToken=token, progress=step,
                               **({"total": total} if total else {})))

    def request(self, method, **params):
        """Sends a request to the client and returns its response."""
        id = f"question-{len(client_responses)}"
        client_responses[id] = pending = [threading.Event(), None]
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        pending[0].wait(10)
        return pending[1]


# The tools that every server has.


def echo(call):
    call.result(text(call.arguments.get("text", "")))


def sleep(call):
    """Sleeps until it is canceled; with `progress` it reports progress every tenth of a second."""
    steps = int(call.arguments.get("seconds", 0) * 10)
    record("sleeps")
    for step in range(steps):
        if call.is_canceled():
            return record("sleep canceled")
        if call.arguments.get("progress"):
            call.progress(step, steps)
        time.sleep(0.1)
    call.result(text("slept"))


def count(call):
    """Returns how often it ran; the first call crashes the server."""
    tool = call.params["name"]
    record(tool)
    if record_count(tool) == 1:
        sys.stderr.write("the disk is on fire\n")
        sys.stderr.flush()
        os._exit(7)
    call.result(text(str(record_count(tool))))


def odd(call):
    CALL_BEHAVIORS.get(behavior, lambda call: call.result(text("plain")))(call)


READ_ONLY = {"readOnlyHint": True}
TOOLS = {"echo": (echo, READ_ONLY), "sleep": (sleep, READ_ONLY), "count_query": (count, READ_ONLY),
         "count_mutation": (count, {}), "count_idempotent": (count, {"idempotentHint": True}),
         "odd": (odd, READ_ONLY if behavior.endswith("-query") else {})}


def tool(name, **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def common_tools():
    own = [tool(name, annotations=hints) for name, (_, hints) in TOOLS.items()]
    return own + [tool(name) for name in extra_tools]


def invalid_tools():
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


def endless_pages(params):
    start = int(params.get("cursor") or 0)
    return {"tools": [tool(f"t{start}")], "nextCursor": str(start + 1)}


def repeating_pages(params):
    return {"tools": [tool(f"t{params.get('cursor')}")], "nextCursor": "again"}


def many_tools(params):
    topics = ["weather", "invoice", "calendar", "photo", "route"]
    tools = [tool(f"{topics[i % 5]}_{i}", description=f"Handles {topics[i % 5]} number {i}.")
             for i in range(int(number))]
    return page(tools, params)


LIST_BEHAVIORS = {
    "odd-tools": lambda params: {"tools": invalid_tools() + common_tools()},
    "many": many_tools, "endless-pages": endless_pages, "repeating-pages": repeating_pages,
    "no-list": lambda params: {"tools": "none"},
}


# The behaviors of the tool `odd`.


def every_block(call):
    annotations = {"audience": ["user", "robot"], "priority": 0.25,
                   "lastModified": "2025-01-12T15:00:58Z", "newer": [1]}
    more = {"annotations": annotations, "_meta": {"a/b": {"c": None}}, "unknown": {"deep": [True, None]}}
    resource = {"uri": "a:b", "mimeType": "text/x", "_meta": {"k": 1}, "unknown": 1}
    blocks = [
        {"type": "text", "text": "t", **more},
        {"type": "image", "data": "AA==", "mimeType": "image/png", **more},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav", **more},
        {"type": "resource", "resource": {**resource, "text": "r"}, **more},
        {"type": "resource", "resource": {**resource, "blob": "AA=="}, **more},
        {"type": "resource_link", "uri": "a:b", "name": "n", "title": "T", "description": "d",
         "mimeType": "text/x", "size": 3, "icons": [{"src": "a:c", "sizes": ["1x1"]}], **more},
    ]
    members = {"structuredContent": {"number": 1.5, "text": "é", "none": None}, "isError": True,
               "_meta": {"x/y": [1, {"z": None}]}, "unknown": {"member": [None]}}
    record("result " + json.dumps({"content": blocks, **members}))
    call.result(*blocks, **members)


def unknown_block(call):
    call.result(text("before"), {"type": "hologram", "data": "AA==", "depth": 3}, text("after"))


def duplicate_response(call):
    call.result(text("first"))
    call.result(text("second"))


def unknown_id(call):
    call.send(response(999_999, {"content": [text("of another request")]}))
    call.send(response("no-number", {"content": [text("of no request")]}))
    call.result(text("right"))


def notifications_first(call):
    call.progress(1, 3)
    call.send(notification("notifications/message", level="info", logger="odd", data={"a": 1}))
    call.send(notification("notifications/unheard-of", anything=[1]))
    call.send(notification("notifications/progress", progressToken="unknown", progress=1))
    call.send({"jsonrpc": "2.0", "method": "notifications/bare"})
    if options.modern:
        return call.result(text("done"), structuredContent={})
    responses = {method: call.request(method, **params) for method, params in [
        ("ping", {}), ("roots/list", {}), ("sampling/createMessage", {}), ("made/up", {}),
        ("elicitation/create", {"message": "your name?", "requestedSchema": {"type": "object"}})]}
    outcomes = {method: [key for key in message if key in ("result", "error")][0]
                for method, message in responses.items()}
    call.result(text("done"), structuredContent=outcomes)


def huge_response(call):
    chunk = "x" * (1 << 20)
    head, tail = json.dumps(response(call.id, {"content": [text("@")]})).split("@")
    with output_lock:
        for piece in (head, *[chunk] * int(number), tail, "\n"):
            write(piece.encode())


def invalid_utf8(call):
    line = json.dumps(response(call.id, {"content": [text("@")]})).encode()
    write(line.replace(b"@", b"\xff\xfe\x80") + b"\n")


def exit_mid_line(call):
    write(json.dumps(response(call.id, {"content": [text("cut")]})).encode()[:-20])
    os._exit(0)


def close_output(call):
    os.close(1)


def print_banner(call):
    write("Welcome to ODD 1.0 — ready! {\n\n   \n".encode())
    call.result(text("done"))


def batch_response(call):
    messages = [notification("notifications/unheard-of"), response(call.id, {"content": [text("batched")]})]
    send(messages)


def change_list(call):
    extra_tools.append(f"new_{len(extra_tools)}")
    call.result(text("changed"))
    method = "notifications/tools/list_changed"
    for listener, id in listeners:
        listener(notification(method, _meta={META + "subscriptionId": id}))
    if not options.modern:
        # A server that registers its tools one by one sends such a burst.
        for _ in range(20):
            call.send(notification(method))


def flood_stderr(call):
    for line in range(20_000):
        sys.stderr.write(f"line {line} " + "y" * 200 + "\n")
    sys.stderr.write("z" * 3_000_000)
    sys.stderr.flush()
    call.result(text("flooded"))


ELICITATION = {"message": "which color?", "mode": "form", "requestedSchema": {
    "type": "object", "properties": {"color": {"type": "string", "default": "red"}},
    "required": ["color"]}}


def needs_input(call):
    if not options.modern:
        return call.result(text(json.dumps(call.request("elicitation/create", **ELICITATION))))
    capabilities = call.params["_meta"][META + "clientCapabilities"]
    if behavior == "needs-input-politely" and "elicitation" not in capabilities:
        return call.send(error(call.id, -32021, "elicitation is needed",
                               {"requiredCapabilities": {"elicitation": {}}}))
    state = {"rounds": 0} | json.loads(call.params.get("requestState") or "{}")
    if state["rounds"] < max(number, 1):
        state["rounds"] += 1
        return call.send(response(call.id, {
            "resultType": "input_required", "requestState": json.dumps(state),
            "inputRequests": {"q": {"method": "elicitation/create", "params": ELICITATION}}}))
    call.result(text(json.dumps(call.params["inputResponses"]["q"])))


CALL_BEHAVIORS = {
    "every-block": every_block, "unknown-block": unknown_block, "twice": duplicate_response,
    "other-id": unknown_id, "notifications-first": notifications_first, "huge": huge_response,
    "bad-utf8": invalid_utf8, "mid-line": exit_mid_line, "closes-output": close_output,
    "banner": print_banner, "batch": batch_response, "list-changed": change_list,
    "stderr-flood": flood_stderr,
    "needs-input": needs_input, "needs-input-politely": needs_input,
    "fails": lambda call: call.send(error(call.id, -32050, "the printer is out of paper", [1])),
    "bad-params": lambda call: call.send(error(call.id, -32602, "`size` must be even")),
    "no-result": lambda call: call.send({"jsonrpc": "2.0", "id": call.id}),
    "list-result": lambda call: call.send({"jsonrpc": "2.0", "id": call.id, "result": [1]}),
    "says-error": lambda call: call.result(text("no such city"), isError=True),
    "crash": lambda call: os.abort(), "crash-query": lambda call: os.abort(),
}


# Requests.


def missing_meta(message):
    meta = message.get("params", {}).get("_meta", {})
    required = ("protocolVersion", "clientInfo", "clientCapabilities")
    return [name for name in required if META + name not in meta]


def discover_response(id):
    return response(id, {"supportedVersions": [MODERN], "serverInfo": SERVER_INFO,
                       "capabilities": {"tools": {"listChanged": True}}})


def initialize_response(id):
    capabilities = {"tools": {"listChanged": True}}
    return response(id, {"protocolVersion": options.version, "serverInfo": SERVER_INFO,
                       "capabilities": capabilities, "instructions": "Be odd."})


SERVER_INFO = {"name": "odd", "version": "1.0"}


def respond(message, send):
    """Responds to any request except `tools/call`, on any transport."""
    id, method, params = message["id"], message["method"], message.get("params", {})
    if options.modern and method == "initialize":
        return send(error(id, -32022, "unsupported protocol version", {"supported": [MODERN]}))
    if options.modern and (missing := missing_meta(message)):
        return send(error(id, -32602, f"_meta lacks {missing}"))
    if method == "server/discover" and options.modern:
        return send(discover_response(id))
    if method == "ping" and not options.modern and behavior != "no-ping":
        return send(response(id, {}))
    if method == "initialize":
        is_initialized.set()
        return send(initialize_response(id))
    if method == "tools/list":
        tools = LIST_BEHAVIORS.get(behavior, lambda params: {"tools": common_tools()})(params)
        return send(response(id, tools))
    if method == "subscriptions/listen" and options.modern:
        meta = {META + "subscriptionId": id}
        listeners.append((send, id))
        return send(notification("notifications/subscriptions/acknowledged", _meta=meta,
                                 notifications=params["notifications"]))
    send(error(id, -32601, f"there is no {method}"))


def run(call):
    calls[call.id] = call
    entry = TOOLS.get(call.params["name"])
    if entry is None:
        return call.result(text(f"called {call.params['name']}"))
    entry[0](call)
    calls.pop(call.id, None)


def exit_on_ping(message):
    if message["method"] == "ping":
        sys.stderr.write("unknown method, goodbye\n")
        sys.stderr.flush()
        os._exit(3)


def ignore_before_initialize(message):
    return not is_initialized.is_set() and message["method"] != "initialize"


# Functions that return whether they handled or ignored the request.
REQUEST_BEHAVIORS = {
    "silent": lambda message: True,
    "exits-on-ping": exit_on_ping,
    "slow-exits-on-ping": exit_on_ping,
    "silent-ping": ignore_before_initialize,
    "silent-list": lambda message: message["method"] == "tools/list",
    "refuses": lambda message: send(error(message["id"], -32000, "no license")) or True,
}


def handle_message(message):
    method = message.get("method")
    if method is None:
        if pending := client_responses.get(message.get("id")):
            pending[1] = message
            pending[0].set()
        return
    record(method)
    if method == "notifications/cancelled":
        if call := calls.get(message["params"]["requestId"]):
            call.canceled.set()
    if "id" not in message or REQUEST_BEHAVIORS.get(behavior, lambda message: False)(message):
        return
    if method != "tools/call":
        return respond(message, send_response)
    if options.modern and missing_meta(message):
        return respond(message, send_response)
    call = Call(message["id"], message["params"], send_response)
    threading.Thread(target=run, args=(call,), daemon=True).start()


def send_response(message):
    if behavior == "string-ids" and "id" in message:
        message = {**message, "id": str(message["id"])}
    send(message)


def start_children():
    for _ in range(2):
        child = subprocess.Popen(["sleep", "600"])
        record(f"pid {child.pid}")


STARTUP_BEHAVIORS = {
    "slow": lambda: time.sleep(number),
    "slow-exits-on-ping": lambda: time.sleep(number),
    "banner": lambda: write(b"Welcome to ODD 1.0\n"),
    "fork": start_children,
    "dies": lambda: sys.exit("ODD_KEY is not set"),
}


def main():
    record(f"pid {os.getpid()}")
    record("starts")
    STARTUP_BEHAVIORS.get(behavior, lambda: None)()
    for line in sys.stdin:
        handle_message(json.loads(line))


if __name__ == "__main__":
    main()
