"""A server that says which process it is and how often it was greeted, over MCP or over HTTP.

standing.py mcp     speaks MCP on standard input and output; STANDING_LABEL is what it calls itself
standing.py http    listens on a free port of this machine, and says the port on its first line
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LABEL = os.environ.get("STANDING_LABEL", "")


def speak_mcp():
    greeted = 0
    writing = threading.Lock()

    def say(message):
        with writing:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def tool(name):
        properties = {"ms": {"type": "integer"}}
        schema = {"type": "object", "properties": properties}
        hints = {"readOnlyHint": True}
        return {"name": name, "inputSchema": schema, "annotations": hints}

    def call(number, arguments):
        time.sleep(arguments.get("ms", 0) / 1000)
        said = {"pid": os.getpid(), "greeted": greeted, "label": LABEL}
        text = [{"type": "text", "text": json.dumps(said)}]
        say({"jsonrpc": "2.0", "id": number, "result": {"content": text, "structuredContent": said}})

    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            greeted += 1
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "standing", "version": "1"},
            }
            say({"jsonrpc": "2.0", "id": number, "result": result})
        elif method == "tools/list":
            say({"jsonrpc": "2.0", "id": number, "result": {"tools": [tool("who"), tool("other")]}})
        elif method == "tools/call":
            arguments = message["params"].get("arguments") or {}
            threading.Thread(target=call, args=(number, arguments), daemon=True).start()
        elif number is not None:
            error = {"code": -32601, "message": "not known here"}
            say({"jsonrpc": "2.0", "id": number, "error": error})


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        said = {"pid": os.getpid(), "authorization": self.headers.get("authorization", "")}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Listening(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


if sys.argv[1] == "mcp":
    speak_mcp()
else:
    server = Listening(("127.0.0.1", 0), Answering)
    print(server.server_address[1], flush=True)
    server.serve_forever()
