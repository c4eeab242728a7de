"""An MCP server whose tools return the results in upstream.json; the argument `how` selects the result."""

import json
import sys

with open(__file__.removesuffix(".py") + ".json", encoding="utf-8") as table:
    TABLE = json.load(table)
TOOLS = [entry["tool"] for entry in TABLE]
RESPONSES = {(entry["tool"]["name"], response["how"]): response
             for entry in TABLE for response in entry["answers"]}


def call_tool(params):
    response = RESPONSES[params["name"], params["arguments"]["how"]]
    return {key: response[key] for key in ("result", "error") if key in response}


def respond(method, params):
    match method:
        case "initialize":
            return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "upstream", "version": "1.0"}}}
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call":
            return call_tool(params)
        case _:
            return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        response = respond(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **response}), flush=True)
