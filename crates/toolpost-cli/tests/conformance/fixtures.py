"""What the conformance suite looks for in a server: tools, resources and prompts by name.

A tool is a function of a call; it returns a result, or raises a Failure. How results and
notifications travel is the business of server.py.
"""

import hashlib
import hmac
import json
import time

# The smallest picture and the shortest sound.
PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5E"
         "rkJggg==")
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
# Long enough for a stream to be one, and short enough for a suite that does not wait long.
STEP = 0.01
SECRET = b"only this server can sign"


class Failure(Exception):
    """An error of the protocol, as opposed to the result of a tool that failed."""

    def __init__(self, code, message, data=None, status=200):
        super().__init__(message)
        self.body = {"code": code, "message": message, **({"data": data} if data else {})}
        # What servers without sessions answer with; those with sessions have one status for all.
        self.status = status


def text(words):
    return {"type": "text", "text": words}


def content(*blocks, **members):
    return {"content": list(blocks), **members}


def resource(uri, kind, **held):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, **held}}


# Tools that only answer.


def simple_text(call):
    return content(text("A plain answer."))


def image_content(call):
    return content({"type": "image", "data": PIXEL, "mimeType": "image/png"})


def audio_content(call):
    return content({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"})


def embedded_resource(call):
    return content(resource("test://embedded-resource", "text/plain", text="Held inside."))


def multiple_content_types(call):
    held = resource("test://mixed-content-resource", "application/json", text='{"value":123}')
    return content(text("Three kinds:"), *image_content(call)["content"], held)


def error_handling(call):
    return content(text("This tool always fails."), isError=True)


def custom_header(call):
    return content(text(f"in {call.arguments.get('region')}"))


# Tools that say something before they answer.


def with_logging(call):
    for words in ("begun", "at work", "done"):
        call.log("info", words)
        time.sleep(STEP)
    return content(text("Logged."))


def with_progress(call):
    for done in (0, 50, 100):
        call.progress(done, 100)
        time.sleep(STEP)
    return content(text("Done."))


def trigger_tool_change(call):
    call.change("tools")
    return content(text("The list of tools has changed."))


def trigger_prompt_change(call):
    call.change("prompts")
    return content(text("The list of prompts has changed."))


# Tools that ask the client: by a request of their own, as servers with sessions do, or by a result.


def form(message, required=None, **properties):
    schema = {"type": "object", "properties": properties,
              "required": list(properties) if required is None else required}
    return {"message": message, "requestedSchema": schema}


def prompt_for(words, most=100):
    return {"messages": [{"role": "user", "content": text(words)}], "maxTokens": most}


def sampling(call):
    said = call.ask("sampling/createMessage", prompt_for(call.arguments.get("prompt", "")))
    return content(text(f"The model says: {said['content']['text']}"))


def elicited(call, params):
    said = call.ask("elicitation/create", params)
    return content(text(f"{said['action']}: {json.dumps(said.get('content'))}"))


def elicitation(call):
    word = {"type": "string"}
    return elicited(call, form(call.arguments.get("message", ""), username=word, email=word))


def elicitation_defaults(call):
    return elicited(call, form(
        "Who?", [], name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30}, score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True}))


def elicitation_enums(call):
    plain, values = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
    titled = [{"const": value, "title": value.title()} for value in values]
    return elicited(call, form(
        "Which?", [], untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}}))


# Tools that ask the client as servers without sessions do: by a result that wants more input.


def wants(requests, state=None):
    more = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **more}


NAME = {"method": "elicitation/create", "params": form("Your name?", name={"type": "string"})}
COLOR = {"method": "elicitation/create", "params": form("A color?", color={"type": "string"})}
CONFIRM = {"method": "elicitation/create", "params": form("Sure?", ok={"type": "boolean"})}
CONTEXT = {"method": "elicitation/create", "params": form("About?", context={"type": "string"})}
CAPITAL = {"method": "sampling/createMessage", "params": prompt_for("The capital of France?")}
GREETING = {"method": "sampling/createMessage", "params": prompt_for("Greet.", 50)}
ROOTS = {"method": "roots/list", "params": {}}
CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling",
              "roots/list": "roots"}


def responses(call):
    """What the client answered; nothing but objects count as answers."""
    given = call.params.get("inputResponses", {})
    if not isinstance(given, dict):
        raise Failure(-32602, "inputResponses must be an object")
    return {key: value for key, value in given.items() if isinstance(value, dict)}


class Wanted(Exception):
    """What a tool wants to know before it can go on."""

    def __init__(self, result):
        super().__init__("more input is wanted")
        self.result = result


def asked(call, method, params):
    """The answer to the one question of a tool, or the result that asks it."""
    answer = responses(call).get("answer")
    if answer is None:
        raise Wanted(wants({"answer": {"method": method, "params": params}}))
    return answer


def asking(**requests):
    def tool(call):
        if all(key in responses(call) for key in requests):
            return content(text(json.dumps(responses(call))))
        return wants(requests)
    return tool


def sign(state):
    return f"{state}.{hmac.new(SECRET, state.encode(), hashlib.sha256).hexdigest()}"


def state_of(call):
    """The state that the client brought back, if it is one of ours."""
    given = call.params.get("requestState")
    if given is None:
        return None
    state = given.rpartition(".")[0]
    if not hmac.compare_digest(sign(state), given):
        raise Failure(-32602, "requestState is not one of this server")
    return state


def asking_in_turn(*rounds):
    """Each round asks for something else, and carries how far it came in its state."""
    def tool(call):
        done = int(state_of(call) or 0)
        if done and all(key in responses(call) for key in rounds[done - 1]):
            if done == len(rounds):
                return content(text("state-ok"))
            return wants(rounds[done], sign(str(done + 1)))
        return wants(rounds[max(done - 1, 0)], sign(str(max(done, 1))))
    return tool


def asking_for_what_the_client_can(call):
    requests = {"name": NAME, "capital": CAPITAL, "roots": ROOTS}
    able = {key: request for key, request in requests.items()
            if CAPABILITY[request["method"]] in call.capabilities}
    return wants(able)


def missing_capability(call):
    if "sampling" not in call.capabilities:
        raise Failure(-32021, "sampling is needed", {"requiredCapabilities": {"sampling": {}}}, 400)
    return content(text("The client can sample."))


def streaming_elicitation(call):
    call.progress(1, 2)
    return asking(user_name=NAME)(call)


ADDRESS = {"$anchor": "addressDef", "type": "object",
           "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
CONTACT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "$defs": {"address": ADDRESS},
    "properties": {
        "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]}, "else": {"required": ["email"]},
    "additionalProperties": False,
}


def takes(**properties):
    return {"type": "object", "properties": properties}


WORDS = {"type": "string"}
INPUT = "test_input_required_result_"
TOOLS = {
    "test_simple_text": (simple_text, takes()),
    "test_image_content": (image_content, takes()),
    "test_audio_content": (audio_content, takes()),
    "test_embedded_resource": (embedded_resource, takes()),
    "test_multiple_content_types": (multiple_content_types, takes()),
    "test_error_handling": (error_handling, takes()),
    "test_tool_with_logging": (with_logging, takes()),
    "test_logging_tool": (with_logging, takes()),
    "test_tool_with_progress": (with_progress, takes()),
    "test_trigger_tool_change": (trigger_tool_change, takes()),
    "test_trigger_prompt_change": (trigger_prompt_change, takes()),
    "test_sampling": (sampling, takes(prompt=WORDS)),
    "test_elicitation": (elicitation, takes(message=WORDS)),
    "test_elicitation_sep1034_defaults": (elicitation_defaults, takes()),
    "test_elicitation_sep1330_enums": (elicitation_enums, takes()),
    "test_missing_capability": (missing_capability, takes()),
    "test_streaming_elicitation": (streaming_elicitation, takes()),
    INPUT + "elicitation": (asking(user_name=NAME), takes()),
    INPUT + "sampling": (asking(capital_question=CAPITAL), takes()),
    INPUT + "list_roots": (asking(client_roots=ROOTS), takes()),
    INPUT + "request_state": (asking_in_turn({"confirm": CONFIRM}), takes()),
    INPUT + "tampered_state": (asking_in_turn({"confirm": CONFIRM}), takes()),
    INPUT + "multi_round": (asking_in_turn({"step1": NAME}, {"step2": COLOR}), takes()),
    INPUT + "multiple_inputs": (asking_in_turn(
        {"user_name": NAME, "greeting": GREETING, "client_roots": ROOTS}), takes()),
    INPUT + "capabilities": (asking_for_what_the_client_can, takes()),
    "test_custom_header": (custom_header, takes(region={**WORDS, "x-mcp-header": "Region"})),
    "json_schema_2020_12_tool": (simple_text, CONTACT),
}


# Resources.

RESOURCES = {
    "test://static-text": ("text/plain", {"text": "Words that do not change."}),
    "test://static-binary": ("image/png", {"blob": PIXEL}),
    "test://watched-resource": ("text/plain", {"text": "Watched."}),
}
TEMPLATE = "test://template/{id}/data"


def read(uri):
    before, after = TEMPLATE.split("{id}")
    if uri.startswith(before) and uri.endswith(after):
        words = json.dumps({"id": uri[len(before):-len(after)], "templateTest": True})
        return {"uri": uri, "mimeType": "application/json", "text": words}
    if uri not in RESOURCES:
        raise Failure(-32602, "there is no such resource", {"uri": uri})
    kind, held = RESOURCES[uri]
    return {"uri": uri, "mimeType": kind, **held}


# Prompts.


def message(block):
    return {"role": "user", "content": block}


def prompt(*messages):
    return {"messages": list(messages)}


def input_prompt(call):
    if "user_context" not in responses(call):
        return wants({"user_context": CONTEXT})
    return prompt(message(text(json.dumps(responses(call)))))


PROMPTS = {
    "test_simple_prompt": (lambda call: prompt(message(text("A plain prompt."))), ()),
    "test_prompt_with_arguments": (
        lambda call: prompt(message(text(json.dumps(call.arguments)))), ("arg1", "arg2")),
    "test_prompt_with_embedded_resource": (
        lambda call: prompt(
            message(resource(call.arguments.get("resourceUri"), "text/plain", text="Held.")),
            message(text("Look at it."))),
        ("resourceUri",)),
    "test_prompt_with_image": (
        lambda call: prompt(message({"type": "image", "data": PIXEL, "mimeType": "image/png"}),
                            message(text("Look at it."))), ()),
    "test_input_required_result_prompt": (input_prompt, ()),
}
