"""An MCP server whose resources support subscriptions, over standard input and output or over HTTP.

    subscription_server.py [--modern] [--silent] [--http PORT]

The protocol version is 2026-07-28 with --modern, or else 2025-11-25; with --silent the server does not
declare `resources.subscribe`. Over HTTP it prints its port once it listens. The tool `touch` notifies the
subscribers of a note `times` times; `die` ends the server. Each subscription change is appended as a line
to the file that NOTES_LOG names: `+uri` for subscribe, `-uri` for unsubscribe. Subscriptions to
`note://secret` are rejected.
"""

import argparse
import http.server
import json
import os
import queue
import sys
import threading

META = "io.modelcontextprotocol/"
SECRET_URI = "note://secret"

parser = argparse.ArgumentParser()
parser.add_argument("--modern", action="store_true")
parser.add_argument("--silent", action="store_true")
parser.add_argument("--http", type=int)
options = parser.parse_args()

lock = threading.RLock()
# Subscribers by name: the notify function and the subscribed URIs.
subscribers = {}


def record(sign, uri):
    if path := os.environ.get("NOTES_LOG"):
        with open(path, "a") as log:
            log.write(f"{sign}{uri}\n")


def subscribe(name, notify, uris):
    with lock:
        subscribers.setdefault(name, (notify, set()))[1].update(uris)
        for uri in uris:
            record("+", uri)


def unsubscribe(name, uris=None):
    with lock:
        _, subscribed_uris = subscribers.get(name, (None, set()))
        for uri in sorted(subscribed_uris if uris is None else subscribed_uris & set(uris)):
            subscribed_uris.discard(uri)
            record("-", uri)


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def touch(uri, times):
    with lock:
        notified = [notify for notify, uris in subscribers.values() if uri in uris]
    for _ in range(times):
        for notify in notified:
            notify(uri)
    return {"content": [{"type": "text", "text": f"notified {len(notified)}"}]}


class RpcError(Exception):
    """Code and message of an error."""


RESOURCE_CAPABILITIES = {} if options.silent else {"subscribe": True}
CAPABILITIES = {"tools": {}, "resources": RESOURCE_CAPABILITIES}
SERVER_INFO = {"name": "notes", "version": "1.0"}
OBJECT_SCHEMA = {"type": "object"}


def call_tool(params):
    arguments = params.get("arguments", {})
    if params["name"] == "die":
        os._exit(1)
    return touch(arguments["uri"], arguments.get("times", 1))


METHODS = {
    "server/discover": lambda _: {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES,
                                  "_meta": {META + "serverInfo": SERVER_INFO}},
    "initialize": lambda _: {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES,
                             "serverInfo": SERVER_INFO},
    "tools/list": lambda _: {"tools": [{"name": name, "inputSchema": OBJECT_SCHEMA}
                                       for name in ("touch", "die")]},
    "tools/call": call_tool,
    "resources/list": lambda _: {"resources": [{"uri": "note://one", "name": "one"},
                                               {"uri": "note://two", "name": "two"}]},
    "resources/templates/list": lambda _: {"resourceTemplates": []},
    "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": "t"}]},
}
# The handshake method of each protocol generation, by whether it is modern.
HANDSHAKE_METHODS = {True: "server/discover", False: "initialize"}


def respond(message, name, notify):
    """Handles any request except `subscriptions/listen`."""
    method, params = message["method"], message.get("params", {})
    try:
        if method == "resources/subscribe" and not options.modern:
            if params["uri"] == SECRET_URI:
                raise RpcError(-32055, "subscription not allowed")
            subscribe(name, notify, [params["uri"]])
            result = {}
        elif method == "resources/unsubscribe" and not options.modern:
            unsubscribe(name, [params["uri"]])
            result = {}
        elif method in METHODS and method != HANDSHAKE_METHODS[not options.modern]:
            result = METHODS[method](params)
        else:
            raise RpcError(-32601, f"there is no {method}")
        result = {"resultType": "complete", **result} if options.modern else result
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
    except RpcError as failure:
        code, error_message = failure.args
        error = {"code": code, "message": error_message}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}


def listen(message, send):
    """Handles `subscriptions/listen`; returns the name of the subscriber."""
    requested = message["params"]["notifications"].get("resourceSubscriptions", [])
    accepted = [uri for uri in requested if uri != SECRET_URI]
    meta = {"_meta": {META + "subscriptionId": message["id"]}}
    send(notification("subscriptions/acknowledged",
                     notifications={"resourceSubscriptions": accepted}, **meta))
    name = ("listen", message["id"])
    subscribe(name, lambda uri: send(notification("resources/updated", uri=uri, **meta)), accepted)
    return name


def serve_stdio():
    def send(message):
        with lock:
            print(json.dumps(message), flush=True)

    def notify(uri):
        send(notification("resources/updated", uri=uri))

    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            unsubscribe(("listen", message["params"]["requestId"]))
        elif message.get("method") == "subscriptions/listen" and options.modern:
            listen(message, send)
        elif "id" in message:
            send(respond(message, "pipe", notify))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Messages for the GET stream of the only session.
    outbox = queue.Queue()

    def log_message(self, *args):
        pass

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.document(202, b"")
        if message["method"] == "subscriptions/listen" and options.modern:
            outbox = queue.Queue()
            self.begin_stream()
            name = listen(message, outbox.put)
            self.stream(outbox)
            return unsubscribe(name)
        notify = lambda uri: Handler.outbox.put(notification("resources/updated", uri=uri))
        body = respond(message, "session", notify)
        is_unknown = options.modern and body.get("error", {}).get("code") == -32601
        self.document(404 if is_unknown else 200, json.dumps(body).encode())

    def do_GET(self):
        if options.modern:
            return self.document(405, b"")
        self.begin_stream()
        self.stream(Handler.outbox)

    def do_DELETE(self):
        unsubscribe("session")
        self.document(204, b"")

    def document(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if not options.modern:
            self.send_header("Mcp-Session-Id", "one")
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def stream(self, outbox):
        """Sends messages until the client disconnects."""
        while True:
            try:
                event = f"data: {json.dumps(outbox.get(timeout=0.1))}\n\n"
            except queue.Empty:
                event = ": still here\n\n"
            try:
                self.wfile.write(event.encode())
                self.wfile.flush()
            except OSError:
                return


if options.http is None:
    serve_stdio()
else:
    with http.server.ThreadingHTTPServer(("127.0.0.1", options.http), Handler) as server:
        server.daemon_threads = True
        print(server.server_address[1], flush=True)
        server.serve_forever()
