"""An MCP server on standard input and output whose resources and prompts have unknown members.

    resource_prompt_server.py [--modern]

The protocol version is 2026-07-28 with --modern, or else 2025-11-25. The lists have pages of two entries,
and some entries are invalid. Results whose bytes matter are JSON text, because a JSON library would
reformat their numbers.
"""

import json
import sys

MODERN = "--modern" in sys.argv
SERVER_INFO = {"name": "shelf", "version": "1.0"}
CAPABILITIES = {"resources": {"listChanged": True}, "prompts": {}, "completions": {}}

# Members that no version of the protocol defines.
EXTRA = '"title":"T","annotations":{"priority":0.50,"newer":[1e2]},"_meta":{"a/b":{"c":null}},"x":[ 1.0 ]'
LISTS = {
    "resources/list": ("resources", [
        '{"uri":"shelf://plain","name":"plain"}',
        '{%s,"uri":"shelf://rich","name":"rich","size":3}' % EXTRA,
        '{"name":"nowhere"}', '"loose"',
        '{"uri":"shelf://same","name":"gr\\u00f6\\u00dfe \\ud83d\\ude00"}']),
    "resources/templates/list": ("resourceTemplates", [
        '{"uriTemplate":"shelf://page/{number}","name":"page",%s}' % EXTRA]),
    "prompts/list": ("prompts", [
        '{%s,"name":"say it","arguments":[{"name":"what","required":true,"newer":1.50}]}' % EXTRA,
        '{"name":"same"}', '{"title":"nameless"}', '7']),
}
READ_RESULT = ('{"contents":[{"uri":%s,"mimeType":"text/x","text":"t","_meta":{"k":1.0},"unknown":[ null ]}],'
               '"_meta":{"x/y":[1e2]},"unknown":{"member":1.50}%s}')
PROMPT_RESULT = ('{"description":"d","messages":[{"role":"user","content":{"type":"text","text":%s,'
                 '"unknown":1.0}}],"unknown":[ 1e2 ]%s}')


class RpcError(Exception):
    """Code, message and data of an error."""


def result_type():
    return ',"resultType":"complete"' if MODERN else ""


def list_page(method, cursor):
    member, entries = LISTS[method]
    start = int(cursor or 0)
    more = f',"nextCursor":"{start + 2}"' if start + 2 < len(entries) else ""
    return '{"%s":[%s]%s%s}' % (member, ",".join(entries[start:start + 2]), more, result_type())


def read_resource(params):
    uri = params["uri"]
    if not uri.startswith("shelf://"):
        raise RpcError(-32002, "it is on no shelf", {"uri": uri, "shelves": [1.5]})
    if uri == "shelf://page/0":
        raise RpcError(-32077, "pages begin with one", {"uri": uri})
    hints = ',"ttlMs":1500,"cacheScope":"public"' if MODERN else ""
    return READ_RESULT % (json.dumps(uri), result_type() + hints)


def get_prompt(params):
    if params["name"] not in ("say it", "same"):
        raise RpcError(-32602, "unknown prompt " + params["name"], {"name": params["name"]})
    arguments = {name: value for name, value in params.items() if name != "_meta"}
    return PROMPT_RESULT % (json.dumps(json.dumps(arguments)), result_type())


def complete(params):
    values = json.dumps([json.dumps(params["ref"], sort_keys=True)])
    return '{"completion":{"values":%s,"newer":1.50}%s}' % (values, result_type())


def handshake_result():
    if MODERN:
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "serverInfo": SERVER_INFO,
                "capabilities": CAPABILITIES}
    return {"protocolVersion": "2025-11-25", "serverInfo": SERVER_INFO, "capabilities": CAPABILITIES}


def result(method, params):
    if method == ("server/discover" if MODERN else "initialize"):
        return json.dumps(handshake_result())
    if method in LISTS:
        return list_page(method, params.get("cursor"))
    handlers = {"resources/read": read_resource, "prompts/get": get_prompt,
                "completion/complete": complete}
    if method not in handlers:
        raise RpcError(-32601, f"there is no {method}", None)
    return handlers[method](params)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    head = '{"jsonrpc":"2.0","id":%s' % json.dumps(message["id"])
    try:
        body = ',"result":' + result(message["method"], message.get("params", {}))
    except RpcError as failure:
        code, error_message, data = failure.args
        error = {"code": code, "message": error_message, **({"data": data} if data else {})}
        body = ',"error":' + json.dumps(error)
    print(head + body + "}", flush=True)
