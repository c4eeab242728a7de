"""The server of odd.py over streamable HTTP, with the oddities of that way.

    odd_http.py [--modern] [--version V] [--port P] BEHAVIOR [N]

It prints its port once it listens. Answers to calls are streams if the behavior is one of STREAMS,
else documents. What a request carried is written to ODD_LOG as odd.py does.
"""

import http.server
import json
import os
import queue
import select
import socket
import socketserver
import threading
import time

import odd
from odd import META, MODERN, Call, answer, behavior, error, notification, number, options, record
from odd import text

STREAMS = {"stream", "needs-input", "needs-input-politely", "notifications-first"}
sessions = set()
# What was said on a stream after it broke off, by the id of its last event.
unsaid = {}
# The streams of notifications that are open.
streams = []


class HttpCall(Call):
    def __init__(self, message, send, connection):
        super().__init__(message["id"], message["params"], send)
        self.connection = connection

    def is_cancelled(self):
        return self.cancelled.is_set() or is_closed(self.connection)


def is_closed(connection):
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    # The three methods of the transport.

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method", "answer")
        record(method)
        if refusal := self.refusal(message):
            return self.document(*refusal)
        if "id" not in message or "method" not in message:
            self.take_aside(message)
            return self.document(202)
        if method == "tools/call":
            return self.call(message)
        if method == "tools/list" and behavior == "silent-list":
            return self.stay_silent()
        if method == "subscriptions/listen" and options.modern:
            return self.listen(message)
        said = []
        odd.respond(message, said.append)
        headers = {}
        if method == "initialize" and "result" in said[0]:
            session = f"session-{os.getpid()}-{time.monotonic_ns()}"
            sessions.add(session)
            headers["Mcp-Session-Id"] = session
        is_unknown = options.modern and said[0].get("error", {}).get("code") == -32601
        self.document(404 if is_unknown else 200, said[0], **headers)

    def do_GET(self):
        record(f"GET {self.headers.get('Last-Event-ID', '')}".strip())
        if not options.modern and self.headers.get("Mcp-Session-Id") not in sessions:
            return self.document(404)
        if waiting := unsaid.pop(self.headers.get("Last-Event-ID"), None):
            self.begin_stream(b"")
            self.event(waiting())
            return self.end_stream()
        if behavior not in ("get-stream", "ends-streams", "silent-list") or options.modern:
            return self.document(405)
        self.begin_stream()
        self.hold_open()

    def do_DELETE(self):
        record("DELETE")
        sessions.discard(self.headers.get("Mcp-Session-Id"))
        self.document(204)

    # What is refused.

    def refusal(self, message):
        method, id = message.get("method"), message.get("id")
        if behavior == "bearer" and self.headers.get("Authorization") != "Bearer good":
            return 401, {"error": "invalid_token"}
        if self.path == "/elsewhere":
            record("elsewhere")
        if behavior == "redirect":
            return 307, None, {"Location": f"http://localhost:{port}/elsewhere"}
        if behavior == "redirect-within" and self.path != "/moved":
            return 307, None, {"Location": "/moved"}
        if behavior == "html-page":
            return 200, "<!doctype html><title>Sign in</title>", {"Content-Type": "text/html"}
        if behavior == "broken-gateway":
            return 502, "<html>Bad gateway</html>", {"Content-Type": "text/html"}
        if options.modern:
            return self.modern_refusal(message)
        if method == "initialize":
            return None
        if self.headers.get("Mcp-Session-Id") is None:
            return 400, error(id, -32000, "Bad Request: no session")
        if self.headers["Mcp-Session-Id"] not in sessions:
            return 404, error(id, -32001, "Session not found")
        if self.headers.get("MCP-Protocol-Version") != options.version:
            return 400, error(id, -32000, "Bad Request: the version is another")
        return None

    def modern_refusal(self, message):
        expected = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message.get("method")}
        if message.get("method") == "tools/call":
            expected["Mcp-Name"] = message["params"]["name"]
        for name, value in expected.items():
            if self.headers.get(name) != value:
                return 400, error(message.get("id"), -32020, f"{name} is not {value}")
        return None

    def take_aside(self, message):
        id = message.get("params", {}).get("requestId") if "method" in message else None
        if message.get("method") == "notifications/cancelled" and id in odd.calls:
            odd.calls[id].cancelled.set()
        if (waiting := odd.answers.get(message.get("id"))) and "method" not in message:
            waiting[1] = message
            waiting[0].set()

    # Calls.

    def call(self, message):
        name = message["params"]["name"]
        if behavior == "slow":
            time.sleep(number)
        if odd.lacks_meta(message) and options.modern:
            return self.document(200, error(message["id"], -32602, "_meta is not complete"))
        if name == "odd" and behavior in HTTP_ODD:
            return HTTP_ODD[behavior](self, message)
        if behavior in STREAMS or message["params"]["arguments"].get("progress"):
            self.begin_stream()
            self.run(message, self.event)
            return self.end_stream()
        said = []
        self.run(message, said.append)
        if not said:
            self.close_connection = True
            return
        self.document(200, said[-1])

    def run(self, message, send):
        try:
            odd.run(HttpCall(message, send, self.connection))
        except OSError:
            record("stream closed")
            self.close_connection = True

    def stay_silent(self):
        while not is_closed(self.connection):
            time.sleep(0.05)
        self.close_connection = True

    def listen(self, message):
        self.begin_stream()
        odd.respond(message, self.event)
        self.hold_open()

    def hold_open(self):
        """Until the client goes, or until it is said that this is the end."""
        said = queue.Queue()
        streams.append(said)
        record("listening")
        while not is_closed(self.connection):
            try:
                event = said.get(timeout=0.05)
            except queue.Empty:
                continue
            if event is None:
                break
            self.event(event)
        record("stream closed")
        streams.remove(said)
        self.end_stream()

    # Writing.

    def document(self, status, body=None, more=None, **headers):
        content = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        headers = {"Content-Type": "application/json", **headers, **(more or {})}
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def begin_stream(self, hello=b": hello\n\n"):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if hello:
            self.chunk(hello)

    def event(self, message, **fields):
        lines = [f"{name}: {value}" for name, value in fields.items()]
        self.chunk("\n".join([*lines, f"data: {json.dumps(message)}", "", ""]).encode())

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end_stream(self):
        try:
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


# What `odd` does over HTTP.


def breaks(handler, message):
    """The stream of the first call ends before its answer."""
    record("odd ran")
    handler.begin_stream()
    if odd.recorded("odd ran") > 1:
        handler.event(answer(message["id"], {"content": [text("at last")]}))
        return handler.end_stream()
    return handler.cut() if "cut" in behavior else handler.end_stream()


def resumes(handler, message):
    record("odd ran")
    handler.begin_stream()
    handler.chunk(b"id: e-1\nretry: 50\ndata:\n\n")
    Call(message["id"], message["params"], handler.event).progress(1, 2)
    if behavior == "resumes-forgets":
        sessions.clear()
    elif behavior != "resumes-never":
        unsaid["e-1"] = lambda: answer(message["id"], {"content": [text("resumed")]})
    if behavior != "resumes-cut":
        handler.end_stream()
        return os._exit(0) if behavior == "resumes-dies" else None
    handler.chunk(b"id: e-2\ndata: {\"jsonrpc\":")
    handler.cut()


def forgets(handler, message):
    sessions.clear()
    handler.document(200, answer(message["id"], {"content": [text("who are you?")]}))


def wrong_type(handler, message):
    body = json.dumps(answer(message["id"], {"content": []}))
    handler.document(200, body, {"Content-Type": "text/plain"})


def no_json(handler, message):
    handler.document(200, "}{ oops", {})


def nothing(handler, message):
    handler.document(200)


def error_page(handler, message):
    handler.document(500, "<html>Internal Server Error</html>", {"Content-Type": "text/html"})


def too_many(handler, message):
    handler.document(429, "slow down", {"Content-Type": "text/plain", "Retry-After": "1"})


def header_echo(handler, message):
    headers = {name.lower(): value for name, value in handler.headers.items()}
    handler.document(200, answer(message["id"], {"content": [], "structuredContent": headers}))


def huge(handler, message):
    words = "x" * (int(number) << 20)
    said = answer(message["id"], {"content": [text(words)]})
    if behavior == "huge":
        return handler.document(200, said)
    handler.begin_stream()
    handler.chunk(b"id: e-1\nretry: 50\ndata:\n\n")
    handler.event(said)
    handler.end_stream()


def changes_list(handler, message):
    odd.extra_tools.append(f"new_{len(odd.extra_tools)}")
    changed = notification("notifications/tools/list_changed")
    for stream in list(streams):
        stream.put(changed)
    handler.document(200, answer(message["id"], {"content": [text("changed")]}))


def ends_streams(handler, message):
    for stream in list(streams):
        stream.put(None)
    odd.extra_tools.append("unheard")
    handler.document(200, answer(message["id"], {"content": [text("ended")]}))


def refuses_with_error(handler, message):
    handler.document(400, error(message["id"], -32602, "`size` must be even"))


HTTP_ODD = {
    "cut": breaks, "cut-query": breaks, "ended": breaks, "ended-query": breaks,
    "resumes": resumes, "resumes-cut": resumes, "resumes-forgets": resumes,
    "resumes-dies": resumes, "resumes-never": resumes, "forgets": forgets,
    "wrong-type": wrong_type, "no-json": no_json, "nothing": nothing, "error-page": error_page,
    "too-many": too_many, "headers": header_echo, "huge": huge, "huge-stream": huge,
    "get-stream": changes_list, "listen": changes_list, "ends-streams": ends_streams,
    "bad-request": refuses_with_error,
}

if behavior == "headers":
    region = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": region}}
    odd.LISTS["headers"] = lambda params: {"tools": [odd.tool("odd", inputSchema=schema)]}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Clients go away whenever they like."""


server = Server(("127.0.0.1", options.port), Handler)
port = server.server_address[1]
print(port, flush=True)
record(f"pid {os.getpid()}")
server.serve_forever()
