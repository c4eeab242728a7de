"""An MCP server whose results have members that no version of the protocol defines.

    fidelity_server.py [legacy|modern]

The transport is standard input and output. Each received method is appended as a line to the file that
LOG names. Results are JSON text where a JSON library would reformat them.
"""

import json
import os
import sys
import threading

META = "io.modelcontextprotocol/"
MODERN = sys.argv[1:] == ["modern"]
VERSION = "2026-07-28" if MODERN else "2025-11-25"

# Members that no version of the protocol defines.
EXTRA = '"_meta":{"a.b/c":{"d":[null,1,{"e":"é"}]}},"unheardOf":{"deep":[true,null,{"f":1.5}]}'
ANNOTATIONS = ('"annotations":{"audience":["user","robot"],"priority":0.25,'
               '"lastModified":"2025-01-12T15:00:58Z","newer":[1]}')
ICONS = '"icons":[{"src":"data:,x","mimeType":"image/png","sizes":["1x1","any"],"newer":1}]'
RESOURCE = f'"uri":"fidelity://held","mimeType":"text/x",{EXTRA}'
BLOCKS = ",".join([
    f'{{"type":"text","text":"words",{ANNOTATIONS},{EXTRA}}}',
    f'{{"type":"image","data":"AA==","mimeType":"image/png",{ANNOTATIONS},{EXTRA}}}',
    f'{{"type":"audio","data":"AA==","mimeType":"audio/wav",{ANNOTATIONS},{EXTRA}}}',
    f'{{"type":"resource","resource":{{{RESOURCE},"text":"held"}},{ANNOTATIONS},{EXTRA}}}',
    f'{{"type":"resource","resource":{{{RESOURCE},"blob":"AA=="}},{ANNOTATIONS},{EXTRA}}}',
    f'{{"type":"resource_link","uri":"fidelity://held","name":"n","title":"T","description":"d",'
    f'"mimeType":"text/x","size":3,{ICONS},{ANNOTATIONS},{EXTRA}}}',
])
NUMBERS = ('"largest":18446744073709551615,"smallest":-9223372036854775808,'
           '"odd":9007199254740993,"tenth":0.1,"tiny":5e-324,"huge":1.7976931348623157e308,'
           '"whole":1.0,"zero":-0.0')

# The result of each tool, without `resultType`.
RESULTS = {
    "every_block": f'"content":[{BLOCKS}],"isError":false,{EXTRA}',
    "unknown_blocks": '"content":[{"type":"text","text":"before"},{"type":"hologram","data":"AA==",'
                      '"depth":{"of":[3]}},{"type":"text","text":"after"}]',
    "failing": f'"content":[{{"type":"text","text":"no such city",{EXTRA}}}],"isError":true,{EXTRA}',
    "structured": '"content":[{"type":"text","text":"{\\"city\\": \\"Bern\\"}"}],'
                  f'"structuredContent":{{"city":"Bern"}},{EXTRA}',
    "structured_more": '"content":[{"type":"text","text":"Bern"}],'
                       '"structuredContent":{"city":"Bern","more":[null]}',
    "structured_failing": '"content":[{"type":"text","text":"half of it"}],"isError":true,'
                          '"structuredContent":{"city":"Bern"}',
    "unlike_its_text": '"content":[{"type":"text","text":"in words"}],'
                       '"structuredContent":{"in":"data"}',
    "numbers": '"content":[{"type":"text","text":"numbers","_meta":{' + NUMBERS + '}}],'
               '"structuredContent":{' + NUMBERS + '},"unheardOf":{' + NUMBERS + '}',
    "empty": '"content":[]',
    "empty_text": '"content":[{"type":"text","text":""}],"_meta":{}',
    "escapes": '"content":[{"type":"text","text":"\\ud83d\\ude00 \\u0000 \\u2028 \\/ \\u00e9"}],'
               '"structuredContent":{"\\ud83d\\ude00":"\\u0001"}',
    # Values that have no exact form in most languages; the gateway replaces lone surrogates.
    "lone_surrogates": '"content":[{"type":"text","text":"cut \\ud83d here \\ude00"}],'
                       '"structuredContent":{"\\ud83d":"\\ude00"}',
    "beyond_64_bits": '"content":[],"structuredContent":{"n":123456789012345678901234567890}',
    "nothing": '"unheardOf":1',
    "nulls": '"content":[{"type":"text","text":"t"}],"structuredContent":null,"unheardOf":null',
}
OUTPUT_SCHEMA = ('"outputSchema":{"type":"object","properties":{"city":{"type":"string",'
                 '"x-unheard-of":{"of":1}}},"required":["city"],"x-unheard-of":[1]}')
INPUT_SCHEMA = ('"inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",'
                '"properties":{"text":{"type":"string","description":"é","x-unheard-of":{"of":[1]}},'
                '"tree":{"$ref":"#/$defs/tree"}},"$defs":{"tree":{"type":"object","properties":'
                '{"left":{"$ref":"#/$defs/tree"}}}},"x-unheard-of":null}')


def tool(name):
    schema = "," + OUTPUT_SCHEMA if name.startswith("structured") else ""
    return (f'{{"name":"{name}","title":"The {name}","description":"Says é.",{INPUT_SCHEMA}{schema},{ICONS},'
            f'"annotations":{{"title":"T","readOnlyHint":true,"newer":[1]}},{EXTRA}}}')


TOOLS = ",".join(tool(name) for name in [*RESULTS, "echo", "wait", "refuse"])
ENTRY = f'"name":"n","title":"T","description":"é",{ICONS},{ANNOTATIONS},{EXTRA}'
RESULTS_BY_METHOD = {
    "tools/list": f'"tools":[{TOOLS}],{EXTRA}',
    "resources/list": f'"resources":[{{"uri":"fidelity://held","mimeType":"text/x","size":3,{ENTRY}}},'
                      f'{{"uri":"fidelity://other","name":"o"}}],{EXTRA}',
    "resources/templates/list": '"resourceTemplates":[{"uriTemplate":"fidelity://{name}",'
                                f'"mimeType":"text/x",{ENTRY}}}],{EXTRA}',
    "resources/read": f'"contents":[{{{RESOURCE},"text":"held"}},{{{RESOURCE},"blob":"AA=="}}],{EXTRA}',
    "prompts/list": f'"prompts":[{{"name":"greet","title":"T","description":"é","arguments":[{{"name":"a",'
                    f'"title":"A","description":"b","required":true,"newer":1}}],{ICONS},{EXTRA}}}],{EXTRA}',
    "prompts/get": f'"description":"d","messages":[{{"role":"user","content":{{"type":"text","text":"t",'
                   f'{ANNOTATIONS},{EXTRA}}},"unheardOf":1}}],{EXTRA}',
    "completion/complete": f'"completion":{{"values":["a","é"],"total":3,"hasMore":true,"newer":1}},{EXTRA}',
    "ping": "",
}
CAPABILITIES = '"capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}}'
SERVER_INFO = '"serverInfo":{"name":"fidelity","version":"1.0"}'
HANDSHAKE_RESULTS = {
    "server/discover": f'"supportedVersions":["{VERSION}"],{CAPABILITIES},{SERVER_INFO}',
    "initialize": f'"protocolVersion":"{VERSION}",{CAPABILITIES},{SERVER_INFO}',
}
CACHE_HINTS = '"ttlMs":0,"cacheScope":"private",'

output_lock = threading.Lock()
canceled = {}


def record(line):
    if path := os.environ.get("LOG"):
        with open(path, "a") as log:
            log.write(line + "\n")


def write(text):
    with output_lock:
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


def send_result(id, members, hints=""):
    members = f'"resultType":"complete",{hints}{members}'.rstrip(",") if MODERN else members
    write(f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"result":{{{members}}}}}')


def send_error(id, code, message, data=None):
    body = {"code": code, "message": message, **({"data": data} if data else {})}
    write(json.dumps({"jsonrpc": "2.0", "id": id, "error": body}))


def echo(id, arguments):
    """Returns the arguments; numbers are returned as text."""
    block = {"type": "text", "text": json.dumps(arguments)}
    send_result(id, f'"content":[{json.dumps(block)}]')


def wait(id, params):
    """Reports progress for each step and returns; without `steps` it waits until it is canceled."""
    token = params.get("_meta", {}).get("progressToken")
    steps = int(params["arguments"].get("steps", 0))
    for step in range(1, steps + 1):
        progress = {"progressToken": token, "progress": step, "total": steps,
                    "message": f"step {step}"}
        if token is not None:
            # The token must have the type in which it was received.
            progress["progressToken"] = int(token) if isinstance(token, Number) else token
            write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress",
                              "params": progress}))
    if "steps" in params["arguments"]:
        return send_result(id, '"content":[{"type":"text","text":"waited"}]')
    record("waits")
    canceled[id].wait(60)
    record("wait canceled" if canceled[id].is_set() else "wait ended")


class Number(str):
    """A JSON number as its source text."""


def call_tool(id, params):
    name = params["name"]
    if name == "echo":
        return echo(id, params.get("arguments"))
    if name == "refuse":
        return send_error(id, -32050, "the printer is out of paper", {"tray": [1, None]})
    if name == "wait":
        canceled[id] = threading.Event()
        return threading.Thread(target=wait, args=(id, params), daemon=True).start()
    if name in RESULTS:
        return send_result(id, RESULTS[name])
    send_error(id, -32602, f"there is no tool {name}")


def handle_message(message):
    method, params = message.get("method", ""), message.get("params", {})
    id = message.get("id")
    id = int(id) if isinstance(id, Number) else id
    record(method)
    if method == "notifications/cancelled":
        request_id = params["requestId"]
        request_id = int(request_id) if isinstance(request_id, Number) else request_id
        if request_id in canceled:
            canceled[request_id].set()
    if id is None:
        return None
    if MODERN and method == "initialize":
        return send_error(id, -32022, "unsupported protocol version", {"supported": [VERSION]})
    if method in HANDSHAKE_RESULTS and MODERN == (method == "server/discover"):
        return send_result(id, HANDSHAKE_RESULTS[method])
    if method == "tools/call":
        return call_tool(id, params)
    if method == "resources/read" and params["uri"] == "fidelity://nowhere":
        return send_error(id, -32602 if MODERN else -32002, "there is no such resource",
                          {"uri": params["uri"], "unheardOf": [1]})
    if method in RESULTS_BY_METHOD:
        hints = "" if method in ("prompts/get", "completion/complete") else CACHE_HINTS
        return send_result(id, RESULTS_BY_METHOD[method], hints)
    send_error(id, -32601, f"there is no {method}")


for line in sys.stdin:
    handle_message(json.loads(line, parse_int=Number, parse_float=Number))
