"""A server that returns its process id and its number of handshakes, over MCP or over HTTP.

process_info_server.py mcp     MCP on standard input and output; STANDING_LABEL is the label it returns
process_info_server.py http    HTTP on a free port of this machine, which it prints as its first line
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LABEL = os.environ.get("STANDING_LABEL", "")


def serve_mcp():
    handshakes = 0
    output_lock = threading.Lock()

    def send(message):
        with output_lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def tool(name):
        properties = {"ms": {"type": "integer"}}
        schema = {"type": "object", "properties": properties}
        hints = {"readOnlyHint": True}
        return {"name": name, "inputSchema": schema, "annotations": hints}

    def call(id, arguments):
        time.sleep(arguments.get("ms", 0) / 1000)
        info = {"pid": os.getpid(), "handshakes": handshakes, "label": LABEL}
        text = [{"type": "text", "text": json.dumps(info)}]
        send({"jsonrpc": "2.0", "id": id, "result": {"content": text, "structuredContent": info}})

    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            handshakes += 1
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "standing", "version": "1"},
            }
            send({"jsonrpc": "2.0", "id": id, "result": result})
        elif method == "tools/list":
            send({"jsonrpc": "2.0", "id": id, "result": {"tools": [tool("who"), tool("other")]}})
        elif method == "tools/call":
            arguments = message["params"].get("arguments") or {}
            threading.Thread(target=call, args=(id, arguments), daemon=True).start()
        elif id is not None:
            error = {"code": -32601, "message": "method not found"}
            send({"jsonrpc": "2.0", "id": id, "error": error})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        info = {"pid": os.getpid(), "authorization": self.headers.get("authorization", "")}
        body = json.dumps(info).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


if sys.argv[1] == "mcp":
    serve_mcp()
else:
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
