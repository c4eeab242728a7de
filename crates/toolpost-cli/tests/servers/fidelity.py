"""A server whose every answer has something that no version of the protocol knows.

    fidelity.py [legacy|modern]

It speaks over standard input and output; what it is told is appended to the file that LOG names, a
line each. Answers are written by hand where a library would tidy them up.
"""

import json
import os
import sys
import threading

META = "io.modelcontextprotocol/"
MODERN = sys.argv[1:] == ["modern"]
VERSION = "2026-07-28" if MODERN else "2025-11-25"

MORE = '"_meta":{"a.b/c":{"d":[null,1,{"e":"é"}]}},"unheardOf":{"deep":[true,null,{"f":1.5}]}'
NOTES = ('"annotations":{"audience":["user","robot"],"priority":0.25,'
         '"lastModified":"2025-01-12T15:00:58Z","newer":[1]}')
ICONS = '"icons":[{"src":"data:,x","mimeType":"image/png","sizes":["1x1","any"],"newer":1}]'
RESOURCE = f'"uri":"fidelity://held","mimeType":"text/x",{MORE}'
BLOCKS = ",".join([
    f'{{"type":"text","text":"words",{NOTES},{MORE}}}',
    f'{{"type":"image","data":"AA==","mimeType":"image/png",{NOTES},{MORE}}}',
    f'{{"type":"audio","data":"AA==","mimeType":"audio/wav",{NOTES},{MORE}}}',
    f'{{"type":"resource","resource":{{{RESOURCE},"text":"held"}},{NOTES},{MORE}}}',
    f'{{"type":"resource","resource":{{{RESOURCE},"blob":"AA=="}},{NOTES},{MORE}}}',
    f'{{"type":"resource_link","uri":"fidelity://held","name":"n","title":"T","description":"d",'
    f'"mimeType":"text/x","size":3,{ICONS},{NOTES},{MORE}}}',
])
NUMBERS = ('"largest":18446744073709551615,"smallest":-9223372036854775808,'
           '"odd":9007199254740993,"tenth":0.1,"tiny":5e-324,"huge":1.7976931348623157e308,'
           '"whole":1.0,"zero":-0.0')

# The result of each tool, but for `resultType`.
RESULTS = {
    "every_block": f'"content":[{BLOCKS}],"isError":false,{MORE}',
    "unknown_blocks": '"content":[{"type":"text","text":"before"},{"type":"hologram","data":"AA==",'
                      '"depth":{"of":[3]}},{"type":"text","text":"after"}]',
    "failing": f'"content":[{{"type":"text","text":"no such city",{MORE}}}],"isError":true,{MORE}',
    "structured": '"content":[{"type":"text","text":"{\\"city\\": \\"Bern\\"}"}],'
                  f'"structuredContent":{{"city":"Bern"}},{MORE}',
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
    # What cannot be held as it is.
    "lone_surrogates": '"content":[{"type":"text","text":"cut \\ud83d here \\ude00"}],'
                       '"structuredContent":{"\\ud83d":"\\ude00"}',
    "beyond_64_bits": '"content":[],"structuredContent":{"n":123456789012345678901234567890}',
    "nothing": '"unheardOf":1',
    "nulls": '"content":[{"type":"text","text":"t"}],"structuredContent":null,"unheardOf":null',
}
OUTPUT = ('"outputSchema":{"type":"object","properties":{"city":{"type":"string",'
          '"x-unheard-of":{"of":1}}},"required":["city"],"x-unheard-of":[1]}')
INPUT = ('"inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",'
         '"properties":{"text":{"type":"string","description":"é","x-unheard-of":{"of":[1]}},'
         '"tree":{"$ref":"#/$defs/tree"}},"$defs":{"tree":{"type":"object","properties":'
         '{"left":{"$ref":"#/$defs/tree"}}}},"x-unheard-of":null}')


def tool(name):
    schema = "," + OUTPUT if name.startswith("structured") else ""
    return (f'{{"name":"{name}","title":"The {name}","description":"Says é.",{INPUT}{schema},{ICONS},'
            f'"annotations":{{"title":"T","readOnlyHint":true,"newer":[1]}},{MORE}}}')


TOOLS = ",".join(tool(name) for name in [*RESULTS, "echo", "wait", "refuse"])
LISTED = f'"name":"n","title":"T","description":"é",{ICONS},{NOTES},{MORE}'
ANSWERS = {
    "tools/list": f'"tools":[{TOOLS}],{MORE}',
    "resources/list": f'"resources":[{{"uri":"fidelity://held","mimeType":"text/x","size":3,{LISTED}}},'
                      f'{{"uri":"fidelity://other","name":"o"}}],{MORE}',
    "resources/templates/list": '"resourceTemplates":[{"uriTemplate":"fidelity://{name}",'
                                f'"mimeType":"text/x",{LISTED}}}],{MORE}',
    "resources/read": f'"contents":[{{{RESOURCE},"text":"held"}},{{{RESOURCE},"blob":"AA=="}}],{MORE}',
    "prompts/list": f'"prompts":[{{"name":"greet","title":"T","description":"é","arguments":[{{"name":"a",'
                    f'"title":"A","description":"b","required":true,"newer":1}}],{ICONS},{MORE}}}],{MORE}',
    "prompts/get": f'"description":"d","messages":[{{"role":"user","content":{{"type":"text","text":"t",'
                   f'{NOTES},{MORE}}},"unheardOf":1}}],{MORE}',
    "completion/complete": f'"completion":{{"values":["a","é"],"total":3,"hasMore":true,"newer":1}},{MORE}',
    "ping": "",
}
CAPABILITIES = '"capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}}'
INFO = '"serverInfo":{"name":"fidelity","version":"1.0"}'
GREETINGS = {
    "server/discover": f'"supportedVersions":["{VERSION}"],{CAPABILITIES},{INFO}',
    "initialize": f'"protocolVersion":"{VERSION}",{CAPABILITIES},{INFO}',
}
HINTS = '"ttlMs":0,"cacheScope":"private",'

printing = threading.Lock()
canceled = {}


def record(line):
    if path := os.environ.get("LOG"):
        with open(path, "a") as log:
            log.write(line + "\n")


def write(text):
    with printing:
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


def answer(id, members, hints=""):
    members = f'"resultType":"complete",{hints}{members}'.rstrip(",") if MODERN else members
    write(f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"result":{{{members}}}}}')


def refuse(id, code, message, data=None):
    body = {"code": code, "message": message, **({"data": data} if data else {})}
    write(json.dumps({"jsonrpc": "2.0", "id": id, "error": body}))


def echo(id, arguments):
    """The arguments as they came, numbers as the text that they were."""
    block = {"type": "text", "text": json.dumps(arguments)}
    answer(id, f'"content":[{json.dumps(block)}]')


def wait(id, params):
    """Reports once that it waits, and once more for each step; then until it is canceled."""
    token = params.get("_meta", {}).get("progressToken")
    steps = int(params["arguments"].get("steps", 0))
    for step in range(1, steps + 1):
        told = {"progressToken": token, "progress": step, "total": steps, "message": f"step {step}"}
        if token is not None:
            # The token is what came, and no text that was made of a number.
            told["progressToken"] = int(token) if isinstance(token, Number) else token
            write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}))
    if "steps" in params["arguments"]:
        return answer(id, '"content":[{"type":"text","text":"waited"}]')
    record("waits")
    canceled[id].wait(60)
    record("wait canceled" if canceled[id].is_set() else "wait ended")


class Number(str):
    """A number as the text that it was."""


def call(id, params):
    name = params["name"]
    if name == "echo":
        return echo(id, params.get("arguments"))
    if name == "refuse":
        return refuse(id, -32050, "the printer is out of paper", {"tray": [1, None]})
    if name == "wait":
        canceled[id] = threading.Event()
        return threading.Thread(target=wait, args=(id, params), daemon=True).start()
    if name in RESULTS:
        return answer(id, RESULTS[name])
    refuse(id, -32602, f"there is no tool {name}")


def take(message):
    method, params = message.get("method", ""), message.get("params", {})
    id = message.get("id")
    id = int(id) if isinstance(id, Number) else id
    record(method)
    if method == "notifications/cancelled":
        about = params["requestId"]
        about = int(about) if isinstance(about, Number) else about
        if about in canceled:
            canceled[about].set()
    if id is None:
        return None
    if MODERN and method == "initialize":
        return refuse(id, -32022, "unsupported protocol version", {"supported": [VERSION]})
    if method in GREETINGS and MODERN == (method == "server/discover"):
        return answer(id, GREETINGS[method])
    if method == "tools/call":
        return call(id, params)
    if method == "resources/read" and params["uri"] == "fidelity://nowhere":
        return refuse(id, -32602 if MODERN else -32002, "there is no such resource",
                      {"uri": params["uri"], "unheardOf": [1]})
    if method in ANSWERS:
        return answer(id, ANSWERS[method], "" if method in ("prompts/get", "completion/complete")
                      else HINTS)
    refuse(id, -32601, f"there is no {method}")


for line in sys.stdin:
    take(json.loads(line, parse_int=Number, parse_float=Number))
