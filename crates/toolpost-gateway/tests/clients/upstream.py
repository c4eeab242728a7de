"""An MCP server whose tools answer what upstream.json says; a call names its answer as `how`."""

import json
import sys

with open(__file__.removesuffix(".py") + ".json", encoding="utf-8") as table:
    TABLE = json.load(table)
TOOLS = [entry["tool"] for entry in TABLE]
ANSWERS = {(entry["tool"]["name"], answer["how"]): answer
           for entry in TABLE for answer in entry["answers"]}


def called(params):
    answer = ANSWERS[params["name"], params["arguments"]["how"]]
    return {key: answer[key] for key in ("result", "error") if key in answer}


def answered(method, params):
    match method:
        case "initialize":
            return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "upstream", "version": "1.0"}}}
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call":
            return called(params)
        case _:
            return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer = answered(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
