"""An MCP server with odd results, and a rate limit over HTTP.

    results_server.py stdio    INSTRUCTIONS are the instructions for models
    results_server.py http     streamable HTTP on a free port of this machine, printed as the first line

Each tool returns the result of the same name.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


def text(value):
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}, "note": {"type": "string", "default": "x"}},
          "required": ["n"], "additionalProperties": False}
NUMBER = {"n": {"type": "integer"}}
# Schemas that allow more members than they name.
OPEN = {
    "open": {"type": "object", "properties": NUMBER, "additionalProperties": True},
    "open_schema": {"type": "object", "properties": NUMBER, "additionalProperties": {}},
    "open_unevaluated": {"type": "object", "properties": NUMBER, "unevaluatedProperties": True},
    "open_pattern": {"type": "object", "properties": NUMBER, "patternProperties": {"^m": {}}},
    "open_nested": {"type": "object", "properties": {"n": {"type": "integer"}, "more": {
        "type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {}}}},
    "open_parts": {"type": "object", "allOf": [
        {"type": "object", "properties": NUMBER}, {"type": "object", "additionalProperties": True}]},
    "free": {"type": "object"},
}
ORDER = {"type": "object", "properties": {"id": {"type": "integer"}, "total": {"type": "number"}},
         "required": ["id", "total"]}
SCHEMAS = {"order": ORDER, "fits": CLOSED, "converted": CLOSED, "differs": CLOSED, "not_json": CLOSED, "mismatch": CLOSED, **OPEN}

RESULTS = {
    "plain": text("plain"),
    "fits": text({"n": 5}),
    "converted": text({"n": "5", "more": 1}),
    "differs": text({"n": "many"}),
    "not_json": {"content": [{"type": "text", "text": "n is 5"}]},
    "mismatch": {**text({"n": "many"}), "structuredContent": {"n": "many"}},
    **{name: {"content": [], "structuredContent": {"n": "5", "more": {"a": [1]}}} for name in OPEN},
    "transport_meta": {**text("plain"), "_meta": {
        "io.modelcontextprotocol/serverInfo": {"name": "results", "version": "1", "icons": [{"src": "data:," + "x" * 8000}]},
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/related-task": {"taskId": "1"},
        "a.b/c": 1}},
    # The order is placed, but its description does not match the schema.
    "order": {"content": [{"type": "text", "text": "ordered"}], "structuredContent": {"id": "A-7"}},
    # Members that the meta of an envelope also has.
    "claims": {**text("claims"), "operationId": "demo.add", "timestamp": 1, "source": "local"},
}

# Tools over HTTP that are rate limited.
LIMITED = {"limited"}
# Tools that change something, so that they are not called again.
MUTATIONS = LIMITED | {"order"}


def tool(name):
    described = {"name": name, "inputSchema": {"type": "object"},
                 "annotations": {"readOnlyHint": name not in MUTATIONS}}
    return {**described, "outputSchema": SCHEMAS[name]} if name in SCHEMAS else described


def result_of(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "results", "version": "1"}}
        instructions = os.environ.get("INSTRUCTIONS")
        return {**result, "instructions": instructions} if instructions else result
    if method == "tools/list":
        return {"tools": [tool(name) for name in [*RESULTS, *LIMITED]]}
    return RESULTS.get(params.get("name")) if method == "tools/call" else None


def response_to(message):
    response = {"jsonrpc": "2.0", "id": message["id"]}
    result = result_of(message)
    if result is None:
        return {**response, "error": {"code": -32601, "message": "method not found"}}
    return {**response, "result": result}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def respond(self, status, body=None, **headers):
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.respond(405)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if message.get("params", {}).get("name") in LIMITED:
            return self.respond(429, **{"retry-after": "7"})
        if "id" not in message:
            return self.respond(202)
        self.respond(200, response_to(message))

    def log_message(self, *_):
        pass


if sys.argv[1] == "stdio":
    for line in sys.stdin:
        received = json.loads(line)
        if "id" in received:
            print(json.dumps(response_to(received)), flush=True)
else:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
