"""An MCP server on standard input and output whose resources and prompts say more than anybody knows.

    shelf.py [--modern]

With --modern it speaks 2026-07-28, else 2025-11-25. Its lists have pages of two entries, and among
them entries that are none. Results are written by hand where their bytes matter: a reader that turns
them into numbers and back changes them.
"""

import json
import sys

MODERN = "--modern" in sys.argv
INFO = {"name": "shelf", "version": "1.0"}
CAPABILITIES = {"resources": {"listChanged": True}, "prompts": {}, "completions": {}}

MORE = '"title":"T","annotations":{"priority":0.50,"newer":[1e2]},"_meta":{"a/b":{"c":null}},"x":[ 1.0 ]'
LISTS = {
    "resources/list": ("resources", [
        '{"uri":"shelf://plain","name":"plain"}',
        '{%s,"uri":"shelf://rich","name":"rich","size":3}' % MORE,
        '{"name":"nowhere"}', '"loose"',
        '{"uri":"shelf://same","name":"gr\\u00f6\\u00dfe \\ud83d\\ude00"}']),
    "resources/templates/list": ("resourceTemplates", [
        '{"uriTemplate":"shelf://page/{number}","name":"page",%s}' % MORE]),
    "prompts/list": ("prompts", [
        '{%s,"name":"say it","arguments":[{"name":"what","required":true,"newer":1.50}]}' % MORE,
        '{"name":"same"}', '{"title":"nameless"}', '7']),
}
READ = ('{"contents":[{"uri":%s,"mimeType":"text/x","text":"t","_meta":{"k":1.0},"unknown":[ null ]}],'
        '"_meta":{"x/y":[1e2]},"unknown":{"member":1.50}%s}')
PROMPT = ('{"description":"d","messages":[{"role":"user","content":{"type":"text","text":%s,'
          '"unknown":1.0}}],"unknown":[ 1e2 ]%s}')


class Refusal(Exception):
    """Code, message and data of an error."""


def complete():
    return ',"resultType":"complete"' if MODERN else ""


def listed(method, cursor):
    member, entries = LISTS[method]
    start = int(cursor or 0)
    more = f',"nextCursor":"{start + 2}"' if start + 2 < len(entries) else ""
    return '{"%s":[%s]%s%s}' % (member, ",".join(entries[start:start + 2]), more, complete())


def read(params):
    uri = params["uri"]
    if not uri.startswith("shelf://"):
        raise Refusal(-32002, "it is on no shelf", {"uri": uri, "shelves": [1.5]})
    if uri == "shelf://page/0":
        raise Refusal(-32077, "pages begin with one", {"uri": uri})
    hints = ',"ttlMs":1500,"cacheScope":"public"' if MODERN else ""
    return READ % (json.dumps(uri), complete() + hints)


def prompt(params):
    if params["name"] not in ("say it", "same"):
        raise Refusal(-32602, "nobody says " + params["name"], {"name": params["name"]})
    given = {name: value for name, value in params.items() if name != "_meta"}
    return PROMPT % (json.dumps(json.dumps(given)), complete())


def completed(params):
    said = json.dumps([json.dumps(params["ref"], sort_keys=True)])
    return '{"completion":{"values":%s,"newer":1.50}%s}' % (said, complete())


def greeted():
    if MODERN:
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "serverInfo": INFO,
                "capabilities": CAPABILITIES}
    return {"protocolVersion": "2025-11-25", "serverInfo": INFO, "capabilities": CAPABILITIES}


def result(method, params):
    if method == ("server/discover" if MODERN else "initialize"):
        return json.dumps(greeted())
    if method in LISTS:
        return listed(method, params.get("cursor"))
    answers = {"resources/read": read, "prompts/get": prompt, "completion/complete": completed}
    if method not in answers:
        raise Refusal(-32601, f"there is no {method}", None)
    return answers[method](params)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    head = '{"jsonrpc":"2.0","id":%s' % json.dumps(message["id"])
    try:
        body = ',"result":' + result(message["method"], message.get("params", {}))
    except Refusal as refusal:
        code, words, data = refusal.args
        error = {"code": code, "message": words, **({"data": data} if data else {})}
        body = ',"error":' + json.dumps(error)
    print(head + body + "}", flush=True)
