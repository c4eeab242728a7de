"""An MCP server whose resources can be followed, over standard input and output or over HTTP.

    notes.py [--modern] [--silent] [--http PORT]

With --modern it speaks 2026-07-28, else 2025-11-25; with --silent it does not offer to tell of changes.
Over HTTP it prints its port once it listens. The tool `touch` says that a note has changed, as often as
`times` says, to those who follow it; `die` ends the server. What it is asked to follow is appended to the
file that NOTES_LOG names, a line each: `+uri` when it begins to tell of a note, `-uri` when it ends to.
Of `note://secret` it refuses to tell.
"""

import argparse
import http.server
import json
import os
import queue
import sys
import threading

META = "io.modelcontextprotocol/"
SECRET = "note://secret"

parser = argparse.ArgumentParser()
parser.add_argument("--modern", action="store_true")
parser.add_argument("--silent", action="store_true")
parser.add_argument("--http", type=int)
options = parser.parse_args()

lock = threading.RLock()
# Whoever is told: the function that tells, and the notes that are followed, by a name of its own.
followers = {}


def record(sign, uri):
    if path := os.environ.get("NOTES_LOG"):
        with open(path, "a") as log:
            log.write(f"{sign}{uri}\n")


def follow(name, tell, uris):
    with lock:
        followers.setdefault(name, (tell, set()))[1].update(uris)
        for uri in uris:
            record("+", uri)


def leave(name, uris=None):
    with lock:
        _, followed = followers.get(name, (None, set()))
        for uri in sorted(followed if uris is None else followed & set(uris)):
            followed.discard(uri)
            record("-", uri)


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def touch(uri, times):
    with lock:
        told = [tell for tell, followed in followers.values() if uri in followed]
    for _ in range(times):
        for tell in told:
            tell(uri)
    return {"content": [{"type": "text", "text": f"told {len(told)}"}]}


class Refusal(Exception):
    """Code and message of an error."""


RESOURCES = {} if options.silent else {"subscribe": True}
CAPABILITIES = {"tools": {}, "resources": RESOURCES}
INFO = {"name": "notes", "version": "1.0"}
OBJECT = {"type": "object"}


def call(params):
    arguments = params.get("arguments", {})
    if params["name"] == "die":
        os._exit(1)
    return touch(arguments["uri"], arguments.get("times", 1))


METHODS = {
    "server/discover": lambda _: {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES,
                                  "_meta": {META + "serverInfo": INFO}},
    "initialize": lambda _: {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES,
                             "serverInfo": INFO},
    "tools/list": lambda _: {"tools": [{"name": name, "inputSchema": OBJECT}
                                       for name in ("touch", "die")]},
    "tools/call": call,
    "resources/list": lambda _: {"resources": [{"uri": "note://one", "name": "one"},
                                               {"uri": "note://two", "name": "two"}]},
    "resources/templates/list": lambda _: {"resourceTemplates": []},
    "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": "t"}]},
}
ONLY = {True: "server/discover", False: "initialize"}


def answer(message, name, tell):
    """The answer to a request that is no request to listen."""
    method, params = message["method"], message.get("params", {})
    try:
        if method == "resources/subscribe" and not options.modern:
            if params["uri"] == SECRET:
                raise Refusal(-32055, "of this nobody is told")
            follow(name, tell, [params["uri"]])
            result = {}
        elif method == "resources/unsubscribe" and not options.modern:
            leave(name, [params["uri"]])
            result = {}
        elif method in METHODS and method != ONLY[not options.modern]:
            result = METHODS[method](params)
        else:
            raise Refusal(-32601, f"there is no {method}")
        result = {"resultType": "complete", **result} if options.modern else result
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
    except Refusal as refusal:
        code, words = refusal.args
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": words}}


def listen(message, say):
    """Tells as `subscriptions/listen` asks; the name of the follower is given back."""
    wanted = message["params"]["notifications"].get("resourceSubscriptions", [])
    honored = [uri for uri in wanted if uri != SECRET]
    mark = {"_meta": {META + "subscriptionId": message["id"]}}
    say(notification("subscriptions/acknowledged",
                     notifications={"resourceSubscriptions": honored}, **mark))
    name = ("listen", message["id"])
    follow(name, lambda uri: say(notification("resources/updated", uri=uri, **mark)), honored)
    return name


def on_a_pipe():
    def say(message):
        with lock:
            print(json.dumps(message), flush=True)

    def tell(uri):
        say(notification("resources/updated", uri=uri))

    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            leave(("listen", message["params"]["requestId"]))
        elif message.get("method") == "subscriptions/listen" and options.modern:
            listen(message, say)
        elif "id" in message:
            say(answer(message, "pipe", tell))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # What is said on the stream of the one session there is.
    said = queue.Queue()

    def log_message(self, *args):
        pass

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.document(202, b"")
        if message["method"] == "subscriptions/listen" and options.modern:
            said = queue.Queue()
            self.begin_stream()
            name = listen(message, said.put)
            self.stream(said)
            return leave(name)
        tell = lambda uri: Handler.said.put(notification("resources/updated", uri=uri))
        body = answer(message, "session", tell)
        missing = options.modern and body.get("error", {}).get("code") == -32601
        self.document(404 if missing else 200, json.dumps(body).encode())

    def do_GET(self):
        if options.modern:
            return self.document(405, b"")
        self.begin_stream()
        self.stream(Handler.said)

    def do_DELETE(self):
        leave("session")
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

    def stream(self, said):
        """Until nobody reads any more, which is an error of the connection."""
        while True:
            try:
                event = f"data: {json.dumps(said.get(timeout=0.1))}\n\n"
            except queue.Empty:
                event = ": still here\n\n"
            try:
                self.wfile.write(event.encode())
                self.wfile.flush()
            except OSError:
                return


if options.http is None:
    on_a_pipe()
else:
    with http.server.ThreadingHTTPServer(("127.0.0.1", options.http), Handler) as server:
        server.daemon_threads = True
        print(server.server_address[1], flush=True)
        server.serve_forever()
