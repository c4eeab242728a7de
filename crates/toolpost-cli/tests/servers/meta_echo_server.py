"""An MCP server on standard input and output that returns the `_meta` of each request: in the results of
its tool, its resource, its prompt, its lists and its completions."""

import json
import sys

TOOL = {"name": "look", "description": "Returns the `_meta` of the request",
        "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


def result_of(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}},
                "serverInfo": {"name": "meta", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        meta = params.get("_meta", {})
        return {"content": [{"type": "text", "text": json.dumps(meta)}], "structuredContent": meta}
    meta = json.dumps(params.get("_meta", {}))
    if method == "resources/list":
        return {"resources": [{"uri": "meta:it", "name": meta}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": meta}]}
    if method == "prompts/get":
        return {"description": meta, "messages": []}
    if method == "completion/complete":
        return {"completion": {"values": [meta]}}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = result_of(message)
    response = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        response["error"] = {"code": -32601, "message": "method not found"}
    else:
        response["result"] = result
    print(json.dumps(response), flush=True)
