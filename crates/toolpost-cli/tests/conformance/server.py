"""A server with everything that the conformance suite looks for, over HTTP.

    server.py [legacy|modern]

It prints its port once it listens. `legacy` is what servers with sessions speak (2025-11-25), `modern`
what those without speak (2026-07-28); if neither is said, each client gets what it asks for.
"""

import base64
import binascii
import http.server
import json
import queue
import sys
import threading
import uuid

import fixtures
from fixtures import Failure

LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
INFO = {"name": "conformance-fixtures", "version": "1.0.0"}
LOCAL = {"localhost", "127.0.0.1", "[::1]"}
CACHED = {"tools/list", "prompts/list", "resources/list", "resources/templates/list",
          "resources/read", "server/discover"}
# The parameter that goes into the header Mcp-Name.
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
PATIENCE = 20

versions = [version for era, version in (("modern", MODERN), ("legacy", LEGACY))
            if sys.argv[1:] in ([], [era])]
sessions = set()
# Whoever listens: the queue of its messages, what it wants to hear of, the id of its subscription.
listeners = []
# Requests to clients that wait for their answers: queues by id.
questions = {}
# How many tools and prompts came after the start.
added = {"tools": 0, "prompts": 0}


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def change(kind):
    added[kind] += 1
    for said, kinds, subscription in list(listeners):
        if kind in kinds:
            meta = {"_meta": {META + "subscriptionId": subscription}} if subscription else {}
            said.put(notification(f"{kind}/list_changed", **meta))


class Call:
    """A request, as the fixtures see it."""

    def __init__(self, handler, message, is_modern):
        self.id, self.method = message["id"], message["method"]
        self.params = message.get("params") or {}
        self.arguments = self.params.get("arguments") or {}
        self.meta = self.params.get("_meta") or {}
        self.capabilities = self.meta.get(META + "clientCapabilities", {})
        self.handler, self.is_modern, self.change = handler, is_modern, change

    def progress(self, done, total):
        token = self.meta.get("progressToken")
        if token is not None:
            self.handler.event(notification("progress", progressToken=token, progress=done,
                                            total=total))

    def log(self, level, words):
        if not self.is_modern or META + "logLevel" in self.meta:
            self.handler.event(notification("message", level=level, data=words))

    def ask(self, method, params):
        if self.is_modern:
            return fixtures.asked(self, method, params)
        id = str(uuid.uuid4())
        questions[id] = queue.Queue()
        self.handler.event({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        try:
            said = questions[id].get(timeout=PATIENCE)
        except queue.Empty:
            raise Failure(-32603, f"the client does not answer {method}") from None
        finally:
            del questions[id]
        if "result" not in said:
            words = said.get("error", {}).get("message")
            raise Failure(-32603, f"the client refuses {method}: {words}")
        return said["result"]


# What each method answers.


def discover(call):
    return {"supportedVersions": versions, "capabilities": CAPABILITIES,
            "_meta": {META + "serverInfo": INFO}}


def initialize(call):
    return {"protocolVersion": LEGACY, "serverInfo": INFO,
            "capabilities": {**CAPABILITIES, "logging": {}}}


def list_tools(call):
    tools = [{"name": name, "description": f"Does what {name} says.", "inputSchema": schema}
             for name, (_, schema) in fixtures.TOOLS.items()]
    return {"tools": tools + [{"name": f"tool_{number}", "description": "Came later.",
                               "inputSchema": {"type": "object"}}
                              for number in range(added["tools"])]}


def call_tool(call):
    known = fixtures.TOOLS.get(call.params.get("name"))
    if known is None:
        raise Failure(-32602, f"there is no tool {call.params.get('name')}")
    return known[0](call)


def list_prompts(call):
    prompts = [{"name": name, "description": f"Says what {name} says.",
                "arguments": [{"name": word, "required": True} for word in words]}
               for name, (_, words) in fixtures.PROMPTS.items()]
    return {"prompts": prompts + [{"name": f"prompt_{number}", "description": "Came later."}
                                  for number in range(added["prompts"])]}


def get_prompt(call):
    known = fixtures.PROMPTS.get(call.params.get("name"))
    if known is None:
        raise Failure(-32602, f"there is no prompt {call.params.get('name')}")
    return known[0](call)


def list_resources(call):
    return {"resources": [{"uri": uri, "name": uri.rpartition("/")[2], "mimeType": kind}
                          for uri, (kind, _) in fixtures.RESOURCES.items()]}


def list_templates(call):
    return {"resourceTemplates": [{"uriTemplate": fixtures.TEMPLATE, "name": "data by id"}]}


def complete(call):
    typed = call.params["argument"]["value"]
    return {"completion": {"values": [typed + "ing"], "total": 1, "hasMore": False}}


CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {"listChanged": True},
                "resources": {"subscribe": True}, "completions": {}}
BOTH = {
    "tools/list": list_tools, "tools/call": call_tool,
    "prompts/list": list_prompts, "prompts/get": get_prompt,
    "resources/list": list_resources, "resources/templates/list": list_templates,
    "resources/read": lambda call: {"contents": [fixtures.read(call.params["uri"])]},
    "completion/complete": complete,
}
METHODS = {
    MODERN: {**BOTH, "server/discover": discover},
    LEGACY: {**BOTH, "initialize": initialize, "ping": lambda call: {},
             "logging/setLevel": lambda call: {},
             "resources/subscribe": lambda call: {}, "resources/unsubscribe": lambda call: {}},
}


def asked_for(call, method, result):
    """What a result wants to know is asked by requests, of clients that cannot be told otherwise."""
    while result.get("resultType") == "input_required":
        said = {key: call.ask(request["method"], request["params"])
                for key, request in result["inputRequests"].items()}
        call.params |= {"inputResponses": said, "requestState": result.get("requestState")}
        result = method(call)
    return result


# What is refused before a method is looked for.


def refuse_version(call, headers):
    asked = call.meta.get(META + "protocolVersion")
    missing = [name for name in ("protocolVersion", "clientCapabilities")
               if META + name not in call.meta]
    if missing:
        raise Failure(-32602, f"_meta lacks {missing}", status=400)
    if headers.get("MCP-Protocol-Version") != asked:
        raise Failure(-32020, "MCP-Protocol-Version is not the version of the request", status=400)
    if asked not in versions:
        raise Failure(-32022, "unsupported protocol version",
                      {"supported": versions, "requested": asked}, 400)


def refuse_headers(call, headers):
    expected = {"Mcp-Method": call.method}
    if parameter := NAMED.get(call.method):
        expected["Mcp-Name"] = call.params.get(parameter)
    tool = fixtures.TOOLS.get(call.params.get("name")) if call.method == "tools/call" else None
    for name, schema in (tool[1].get("properties", {}) if tool else {}).items():
        if "x-mcp-header" in schema and name in call.arguments:
            expected[f"Mcp-Param-{schema['x-mcp-header']}"] = call.arguments[name]
    for name, value in expected.items():
        if decoded(headers.get(name)) != value:
            raise Failure(-32020, f"{name} is not {value}", status=400)


def decoded(value):
    value = value and value.strip()
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def is_foreign(self):
        origin = self.headers.get("Origin", "").partition("://")[2]
        return not {host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
                    for host in (self.headers.get("Host", ""), origin) if host} <= LOCAL

    def do_POST(self):
        self.is_stream = False
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session, version = (self.headers.get(name) for name in
                            ("Mcp-Session-Id", "MCP-Protocol-Version"))
        if self.is_foreign():
            return self.document(403)
        if session is not None and session not in sessions:
            return self.document(404)
        if "method" not in message and message.get("id") in questions:
            questions[message["id"]].put(message)
        if "id" not in message or "method" not in message:
            return self.document(202)
        is_greeting = message["method"] == "initialize" and version != MODERN
        is_modern = session is None and not (is_greeting and LEGACY in versions)
        self.respond(Call(self, message, is_modern))

    def respond(self, call):
        status, headers = 200, {}
        try:
            answer = {"jsonrpc": "2.0", "id": call.id, "result": self.result(call)}
        except Failure as failure:
            answer = {"jsonrpc": "2.0", "id": call.id, "error": failure.body}
            status = failure.status if call.is_modern else 200
        if call.method == "initialize" and not call.is_modern:
            headers["Mcp-Session-Id"] = str(uuid.uuid4())
            sessions.add(headers["Mcp-Session-Id"])
        if not self.is_stream:
            return self.document(status, answer, headers)
        self.event(answer)
        self.end_stream()

    def result(self, call):
        if call.is_modern:
            refuse_version(call, self.headers)
            refuse_headers(call, self.headers)
            if call.method == "subscriptions/listen":
                self.listen(call)
        method = METHODS[MODERN if call.is_modern else LEGACY].get(call.method)
        if method is None:
            raise Failure(-32601, f"there is no {call.method}", status=404)
        try:
            result = method(call)
        except fixtures.Wanted as wanted:
            result = wanted.result
        if not call.is_modern:
            return asked_for(call, method, result)
        hints = {"ttlMs": 0, "cacheScope": "private"} if call.method in CACHED else {}
        return {"resultType": "complete", **hints, **result}

    # Streams of notifications.

    def listen(self, call):
        wanted = call.params.get("notifications", {})
        self.event(notification("subscriptions/acknowledged", notifications=wanted,
                                _meta={META + "subscriptionId": call.id}))
        self.hold([kind for kind in added if wanted.get(f"{kind}ListChanged")], call.id)

    def do_GET(self):
        self.is_stream = False
        if self.headers.get("Mcp-Session-Id") not in sessions:
            return self.document(405)
        self.begin_stream()
        self.hold(list(added), None)

    def hold(self, kinds, subscription):
        """Until nobody reads any more, which is an error of the connection."""
        listener = (queue.Queue(), kinds, subscription)
        listeners.append(listener)
        try:
            while True:
                try:
                    self.event(listener[0].get(timeout=1))
                except queue.Empty:
                    self.chunk(b": still here\n\n")
        finally:
            listeners.remove(listener)

    def do_DELETE(self):
        known = self.headers.get("Mcp-Session-Id") in sessions
        sessions.discard(self.headers.get("Mcp-Session-Id"))
        self.document(204 if known else 404)

    # Writing.

    def document(self, status, body=None, headers=()):
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **dict(headers),
                            "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def begin_stream(self):
        self.is_stream = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, message):
        if not self.is_stream:
            self.begin_stream()
        self.chunk(f"data: {json.dumps(message)}\n\n".encode())

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")


with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
