"""An MCP server over HTTP with the fixtures that the conformance suite requires.

    server.py [legacy|modern]

It prints its port once it listens. `legacy` is protocol 2025-11-25, with sessions; `modern` is protocol
2026-07-28, without sessions; without an argument the server supports both.
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
from fixtures import RpcError

LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
SERVER_INFO = {"name": "conformance-fixtures", "version": "1.0.0"}
LOCAL_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
CACHEABLE = {"tools/list", "prompts/list", "resources/list", "resources/templates/list",
             "resources/read", "server/discover"}
# The parameter that the header Mcp-Name repeats.
NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# How long a client may take to respond, in seconds.
RESPONSE_TIMEOUT = 20

versions = [version for generation, version in (("modern", MODERN), ("legacy", LEGACY))
            if sys.argv[1:] in ([], [generation])]
sessions = set()
# Open notification streams: the message queue, the subscribed lists, the subscription id.
listeners = []
# Pending requests to clients: the response queue by request id.
client_requests = {}
# How many tools and prompts were added after the start.
added = {"tools": 0, "prompts": 0}


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def change_list(kind):
    added[kind] += 1
    for messages, kinds, subscription in list(listeners):
        if kind in kinds:
            meta = {"_meta": {META + "subscriptionId": subscription}} if subscription else {}
            messages.put(notification(f"{kind}/list_changed", **meta))


class Call:
    """A request, as the fixtures use it."""

    def __init__(self, handler, message, is_modern):
        self.id, self.method = message["id"], message["method"]
        self.params = message.get("params") or {}
        self.arguments = self.params.get("arguments") or {}
        self.meta = self.params.get("_meta") or {}
        self.capabilities = self.meta.get(META + "clientCapabilities", {})
        self.handler, self.is_modern, self.change_list = handler, is_modern, change_list

    def progress(self, done, total):
        token = self.meta.get("progressToken")
        if token is not None:
            self.handler.event(notification("progress", progressToken=token, progress=done,
                                            total=total))

    def log(self, level, message):
        if not self.is_modern or META + "logLevel" in self.meta:
            self.handler.event(notification("message", level=level, data=message))

    def request_input(self, method, params):
        if self.is_modern:
            return fixtures.single_input(self, method, params)
        id = str(uuid.uuid4())
        client_requests[id] = queue.Queue()
        self.handler.event({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        try:
            response = client_requests[id].get(timeout=RESPONSE_TIMEOUT)
        except queue.Empty:
            raise RpcError(-32603, f"the client does not respond to {method}") from None
        finally:
            del client_requests[id]
        if "result" not in response:
            message = response.get("error", {}).get("message")
            raise RpcError(-32603, f"the client rejects {method}: {message}")
        return response["result"]


# The results of the methods.


def discover(call):
    return {"supportedVersions": versions, "capabilities": CAPABILITIES,
            "_meta": {META + "serverInfo": SERVER_INFO}}


def initialize(call):
    return {"protocolVersion": LEGACY, "serverInfo": SERVER_INFO,
            "capabilities": {**CAPABILITIES, "logging": {}}}


def list_tools(call):
    tools = [{"name": name, "description": f"The tool {name}.", "inputSchema": schema}
             for name, (_, schema) in fixtures.TOOLS.items()]
    return {"tools": tools + [{"name": f"tool_{number}", "description": "Added later.",
                               "inputSchema": {"type": "object"}}
                              for number in range(added["tools"])]}


def call_tool(call):
    entry = fixtures.TOOLS.get(call.params.get("name"))
    if entry is None:
        raise RpcError(-32602, f"there is no tool {call.params.get('name')}")
    return entry[0](call)


def list_prompts(call):
    prompts = [{"name": name, "description": f"The prompt {name}.",
                "arguments": [{"name": argument, "required": True} for argument in arguments]}
               for name, (_, arguments) in fixtures.PROMPTS.items()]
    return {"prompts": prompts + [{"name": f"prompt_{number}", "description": "Added later."}
                                  for number in range(added["prompts"])]}


def get_prompt(call):
    entry = fixtures.PROMPTS.get(call.params.get("name"))
    if entry is None:
        raise RpcError(-32602, f"there is no prompt {call.params.get('name')}")
    return entry[0](call)


def list_resources(call):
    return {"resources": [{"uri": uri, "name": uri.rpartition("/")[2], "mimeType": mime_type}
                          for uri, (mime_type, _) in fixtures.RESOURCES.items()]}


def list_templates(call):
    return {"resourceTemplates": [{"uriTemplate": fixtures.TEMPLATE, "name": "data by id"}]}


def complete(call):
    prefix = call.params["argument"]["value"]
    return {"completion": {"values": [prefix + "ing"], "total": 1, "hasMore": False}}


CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {"listChanged": True},
                "resources": {"subscribe": True}, "completions": {}}
COMMON_METHODS = {
    "tools/list": list_tools, "tools/call": call_tool,
    "prompts/list": list_prompts, "prompts/get": get_prompt,
    "resources/list": list_resources, "resources/templates/list": list_templates,
    "resources/read": lambda call: {"contents": [fixtures.read_resource(call.params["uri"])]},
    "completion/complete": complete,
}
METHODS = {
    MODERN: {**COMMON_METHODS, "server/discover": discover},
    LEGACY: {**COMMON_METHODS, "initialize": initialize, "ping": lambda call: {},
             "logging/setLevel": lambda call: {},
             "resources/subscribe": lambda call: {}, "resources/unsubscribe": lambda call: {}},
}


def resolve_input(call, method, result):
    """Requests the input of an input_required result from a client with a session."""
    while result.get("resultType") == "input_required":
        responses = {key: call.request_input(request["method"], request["params"])
                     for key, request in result["inputRequests"].items()}
        call.params |= {"inputResponses": responses, "requestState": result.get("requestState")}
        result = method(call)
    return result


# Checks before the method is called.


def check_version(call, headers):
    requested = call.meta.get(META + "protocolVersion")
    missing = [name for name in ("protocolVersion", "clientCapabilities")
               if META + name not in call.meta]
    if missing:
        raise RpcError(-32602, f"_meta lacks {missing}", status=400)
    if headers.get("MCP-Protocol-Version") != requested:
        raise RpcError(-32020, "MCP-Protocol-Version is not the version of the request", status=400)
    if requested not in versions:
        raise RpcError(-32022, "unsupported protocol version",
                       {"supported": versions, "requested": requested}, 400)


def check_headers(call, headers):
    expected = {"Mcp-Method": call.method}
    if parameter := NAME_PARAMETERS.get(call.method):
        expected["Mcp-Name"] = call.params.get(parameter)
    tool = fixtures.TOOLS.get(call.params.get("name")) if call.method == "tools/call" else None
    for name, schema in (tool[1].get("properties", {}) if tool else {}).items():
        if "x-mcp-header" in schema and name in call.arguments:
            expected[f"Mcp-Param-{schema['x-mcp-header']}"] = call.arguments[name]
    for name, value in expected.items():
        if decode_header(headers.get(name)) != value:
            raise RpcError(-32020, f"{name} is not {value}", status=400)


def decode_header(value):
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

    def has_foreign_host(self):
        origin = self.headers.get("Origin", "").partition("://")[2]
        return not {host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
                    for host in (self.headers.get("Host", ""), origin) if host} <= LOCAL_HOSTS

    def do_POST(self):
        self.is_stream = False
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session, version = (self.headers.get(name) for name in
                            ("Mcp-Session-Id", "MCP-Protocol-Version"))
        if self.has_foreign_host():
            return self.document(403)
        if session is not None and session not in sessions:
            return self.document(404)
        if "method" not in message and message.get("id") in client_requests:
            client_requests[message["id"]].put(message)
        if "id" not in message or "method" not in message:
            return self.document(202)
        is_handshake = message["method"] == "initialize" and version != MODERN
        is_modern = session is None and not (is_handshake and LEGACY in versions)
        self.respond(Call(self, message, is_modern))

    def respond(self, call):
        status, headers = 200, {}
        try:
            response = {"jsonrpc": "2.0", "id": call.id, "result": self.result(call)}
        except RpcError as error:
            response = {"jsonrpc": "2.0", "id": call.id, "error": error.body}
            status = error.status if call.is_modern else 200
        if call.method == "initialize" and not call.is_modern:
            headers["Mcp-Session-Id"] = str(uuid.uuid4())
            sessions.add(headers["Mcp-Session-Id"])
        if not self.is_stream:
            return self.document(status, response, headers)
        self.event(response)
        self.end_stream()

    def result(self, call):
        if call.is_modern:
            check_version(call, self.headers)
            check_headers(call, self.headers)
            if call.method == "subscriptions/listen":
                self.listen(call)
        method = METHODS[MODERN if call.is_modern else LEGACY].get(call.method)
        if method is None:
            raise RpcError(-32601, f"there is no {call.method}", status=404)
        try:
            result = method(call)
        except fixtures.InputRequired as required:
            result = required.result
        if not call.is_modern:
            return resolve_input(call, method, result)
        hints = {"ttlMs": 0, "cacheScope": "private"} if call.method in CACHEABLE else {}
        return {"resultType": "complete", **hints, **result}

    # Notification streams.

    def listen(self, call):
        requested = call.params.get("notifications", {})
        self.event(notification("subscriptions/acknowledged", notifications=requested,
                                _meta={META + "subscriptionId": call.id}))
        self.hold_open([kind for kind in added if requested.get(f"{kind}ListChanged")], call.id)

    def do_GET(self):
        self.is_stream = False
        if self.headers.get("Mcp-Session-Id") not in sessions:
            return self.document(405)
        self.begin_stream()
        self.hold_open(list(added), None)

    def hold_open(self, kinds, subscription):
        """Sends notifications until the client disconnects."""
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
        exists = self.headers.get("Mcp-Session-Id") in sessions
        sessions.discard(self.headers.get("Mcp-Session-Id"))
        self.document(204 if exists else 404)

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
