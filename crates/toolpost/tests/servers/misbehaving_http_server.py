"""The server of misbehaving_server.py over streamable HTTP, with behaviors of that transport.

    misbehaving_http_server.py [--modern] [--version V] [--port P] BEHAVIOR [N]

It prints its port once it listens. Responses to calls are event streams if the behavior is one of
STREAM_BEHAVIORS, or else JSON documents. Received methods are appended to ODD_LOG, as in
misbehaving_server.py.
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

import misbehaving_server as server_base
from misbehaving_server import MODERN, Call, behavior, error, notification, number, options
from misbehaving_server import record, response, text

STREAM_BEHAVIORS = {"stream", "needs-input", "needs-input-politely", "notifications-first"}
sessions = set()
# Events to replay on a resumed stream, by the id of the last event.
replay = {}
# The queues of the open notification streams.
streams = []


class HttpCall(Call):
    def __init__(self, message, send, connection):
        super().__init__(message["id"], message["params"], send)
        self.connection = connection

    def is_canceled(self):
        return self.canceled.is_set() or is_closed(self.connection)


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

    # The HTTP methods of the transport.

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method", "response")
        record(method)
        if rejection := self.rejection(message):
            return self.document(*rejection)
        if "id" not in message or "method" not in message:
            self.handle_one_way(message)
            return self.document(202)
        if method == "tools/call":
            return self.call(message)
        if method == "tools/list" and behavior == "silent-list":
            return self.never_respond()
        if method == "subscriptions/listen" and options.modern:
            return self.listen(message)
        messages = []
        server_base.respond(message, messages.append)
        headers = {}
        if method == "initialize" and "result" in messages[0]:
            session = f"session-{os.getpid()}-{time.monotonic_ns()}"
            sessions.add(session)
            headers["Mcp-Session-Id"] = session
        is_unknown = options.modern and messages[0].get("error", {}).get("code") == -32601
        self.document(404 if is_unknown else 200, messages[0], **headers)

    def do_GET(self):
        record(f"GET {self.headers.get('Last-Event-ID', '')}".strip())
        if not options.modern and self.headers.get("Mcp-Session-Id") not in sessions:
            return self.document(404)
        if create_event := replay.pop(self.headers.get("Last-Event-ID"), None):
            self.begin_stream(b"")
            self.event(create_event())
            return self.end_stream()
        if behavior not in ("get-stream", "ends-streams", "silent-list") or options.modern:
            return self.document(405)
        self.begin_stream()
        self.hold_open()

    def do_DELETE(self):
        record("DELETE")
        sessions.discard(self.headers.get("Mcp-Session-Id"))
        self.document(204)

    # Rejected requests.

    def rejection(self, message):
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
            return self.modern_rejection(message)
        if method == "initialize":
            return None
        if self.headers.get("Mcp-Session-Id") is None:
            return 400, error(id, -32000, "Bad Request: no session")
        if self.headers["Mcp-Session-Id"] not in sessions:
            return 404, error(id, -32001, "Session not found")
        if self.headers.get("MCP-Protocol-Version") != options.version:
            return 400, error(id, -32000, "Bad Request: the version is another")
        return None

    def modern_rejection(self, message):
        expected = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message.get("method")}
        if message.get("method") == "tools/call":
            expected["Mcp-Name"] = message["params"]["name"]
        for name, value in expected.items():
            if self.headers.get(name) != value:
                return 400, error(message.get("id"), -32020, f"{name} is not {value}")
        return None

    def handle_one_way(self, message):
        id = message.get("params", {}).get("requestId") if "method" in message else None
        if message.get("method") == "notifications/cancelled" and id in server_base.calls:
            server_base.calls[id].canceled.set()
        pending = server_base.client_responses.get(message.get("id"))
        if pending and "method" not in message:
            pending[1] = message
            pending[0].set()

    # Calls.

    def call(self, message):
        name = message["params"]["name"]
        if behavior == "slow":
            time.sleep(number)
        if server_base.missing_meta(message) and options.modern:
            return self.document(200, error(message["id"], -32602, "_meta is not complete"))
        if name == "odd" and behavior in HTTP_CALL_BEHAVIORS:
            return HTTP_CALL_BEHAVIORS[behavior](self, message)
        if behavior in STREAM_BEHAVIORS or message["params"]["arguments"].get("progress"):
            self.begin_stream()
            self.run(message, self.event)
            return self.end_stream()
        messages = []
        self.run(message, messages.append)
        if not messages:
            self.close_connection = True
            return
        self.document(200, messages[-1])

    def run(self, message, send):
        try:
            server_base.run(HttpCall(message, send, self.connection))
        except OSError:
            record("stream closed")
            self.close_connection = True

    def never_respond(self):
        while not is_closed(self.connection):
            time.sleep(0.05)
        self.close_connection = True

    def listen(self, message):
        self.begin_stream()
        server_base.respond(message, self.event)
        self.hold_open()

    def hold_open(self):
        """Runs until the client disconnects or the stream is ended."""
        messages = queue.Queue()
        streams.append(messages)
        record("listening")
        while not is_closed(self.connection):
            try:
                event = messages.get(timeout=0.05)
            except queue.Empty:
                continue
            if event is None:
                break
            self.event(event)
        record("stream closed")
        streams.remove(messages)
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

    def begin_stream(self, comment=b": hello\n\n"):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if comment:
            self.chunk(comment)

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

    def reset_connection(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


# The behaviors of the tool `odd` over HTTP.


def interrupt_stream(handler, message):
    """The stream of the first call ends before its response."""
    record("odd ran")
    handler.begin_stream()
    if server_base.record_count("odd ran") > 1:
        handler.event(response(message["id"], {"content": [text("at last")]}))
        return handler.end_stream()
    return handler.reset_connection() if "cut" in behavior else handler.end_stream()


def resumable_stream(handler, message):
    record("odd ran")
    handler.begin_stream()
    handler.chunk(b"id: e-1\nretry: 50\ndata:\n\n")
    Call(message["id"], message["params"], handler.event).progress(1, 2)
    if behavior == "resumes-forgets":
        sessions.clear()
    elif behavior != "resumes-never":
        replay["e-1"] = lambda: response(message["id"], {"content": [text("resumed")]})
    if behavior != "resumes-cut":
        handler.end_stream()
        return os._exit(0) if behavior == "resumes-dies" else None
    handler.chunk(b"id: e-2\ndata: {\"jsonrpc\":")
    handler.reset_connection()


def forget_session(handler, message):
    sessions.clear()
    handler.document(200, response(message["id"], {"content": [text("session forgotten")]}))


def wrong_content_type(handler, message):
    body = json.dumps(response(message["id"], {"content": []}))
    handler.document(200, body, {"Content-Type": "text/plain"})


def invalid_json(handler, message):
    handler.document(200, "}{ oops", {})


def empty_body(handler, message):
    handler.document(200)


def error_page(handler, message):
    handler.document(500, "<html>Internal Server Error</html>", {"Content-Type": "text/html"})


def too_many_requests(handler, message):
    handler.document(429, "slow down", {"Content-Type": "text/plain", "Retry-After": "1"})


def header_echo(handler, message):
    headers = {name.lower(): value for name, value in handler.headers.items()}
    handler.document(200, response(message["id"], {"content": [], "structuredContent": headers}))


def huge_response(handler, message):
    payload = "x" * (int(number) << 20)
    result = response(message["id"], {"content": [text(payload)]})
    if behavior == "huge":
        return handler.document(200, result)
    handler.begin_stream()
    handler.chunk(b"id: e-1\nretry: 50\ndata:\n\n")
    handler.event(result)
    handler.end_stream()


def change_list(handler, message):
    server_base.extra_tools.append(f"new_{len(server_base.extra_tools)}")
    changed = notification("notifications/tools/list_changed")
    for stream in list(streams):
        stream.put(changed)
    handler.document(200, response(message["id"], {"content": [text("changed")]}))


def end_streams(handler, message):
    for stream in list(streams):
        stream.put(None)
    server_base.extra_tools.append("unheard")
    handler.document(200, response(message["id"], {"content": [text("ended")]}))


def reject_with_error(handler, message):
    handler.document(400, error(message["id"], -32602, "`size` must be even"))


HTTP_CALL_BEHAVIORS = {
    "cut": interrupt_stream, "cut-query": interrupt_stream, "ended": interrupt_stream,
    "ended-query": interrupt_stream, "resumes": resumable_stream, "resumes-cut": resumable_stream,
    "resumes-forgets": resumable_stream, "resumes-dies": resumable_stream,
    "resumes-never": resumable_stream, "forgets": forget_session,
    "wrong-type": wrong_content_type, "no-json": invalid_json, "nothing": empty_body,
    "error-page": error_page, "too-many": too_many_requests, "headers": header_echo,
    "huge": huge_response, "huge-stream": huge_response, "get-stream": change_list,
    "listen": change_list, "ends-streams": end_streams, "bad-request": reject_with_error,
}

if behavior == "headers":
    region = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": region}}
    server_base.LIST_BEHAVIORS["headers"] = lambda params: {
        "tools": [server_base.tool("odd", inputSchema=schema)]}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Ignores errors of connections that the client closed."""


server = Server(("127.0.0.1", options.port), Handler)
port = server.server_address[1]
print(port, flush=True)
record(f"pid {os.getpid()}")
server.serve_forever()
