"""The tools, resources and prompts that the conformance suite requires of a server.

A tool is a function of a call that returns a result or raises an RpcError. server.py implements the
transport.
"""

import hashlib
import hmac
import json
import time

# A PNG of one pixel and a WAV without samples.
PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5E"
       "rkJggg==")
EMPTY_WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
# The delay between two events of a stream, in seconds; the suite has short timeouts.
EVENT_DELAY = 0.01
SIGNING_KEY = b"only this server can sign"
STRING = {"type": "string"}


class RpcError(Exception):
    """A JSON-RPC error, as opposed to a tool result with `isError`."""

    def __init__(self, code, message, data=None, status=200):
        super().__init__(message)
        self.body = {"code": code, "message": message, **({"data": data} if data else {})}
        # The HTTP status without sessions; with sessions it is always 200.
        self.status = status


def text(value):
    return {"type": "text", "text": value}


def content(*blocks, **members):
    return {"content": list(blocks), **members}


def resource(uri, mime_type, **contents):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, **contents}}


# Tools that only return a result.


def simple_text(call):
    return content(text("A plain result."))


def image_content(call):
    return content({"type": "image", "data": PNG, "mimeType": "image/png"})


def audio_content(call):
    return content({"type": "audio", "data": EMPTY_WAV, "mimeType": "audio/wav"})


def embedded_resource(call):
    return content(resource("test://embedded-resource", "text/plain", text="An embedded resource."))


def multiple_content_types(call):
    embedded = resource("test://mixed-content-resource", "application/json", text='{"value":123}')
    return content(text("Three kinds:"), *image_content(call)["content"], embedded)


def error_handling(call):
    return content(text("This tool always fails."), isError=True)


def custom_header(call):
    return content(text(f"in {call.arguments.get('region')}"))


# Tools that send notifications before their result.


def with_logging(call):
    for message in ("begun", "at work", "done"):
        call.log("info", message)
        time.sleep(EVENT_DELAY)
    return content(text("Logged."))


def with_progress(call):
    for done in (0, 50, 100):
        call.progress(done, 100)
        time.sleep(EVENT_DELAY)
    return content(text("Done."))


def trigger_tool_change(call):
    call.change_list("tools")
    return content(text("The list of tools has changed."))


def trigger_prompt_change(call):
    call.change_list("prompts")
    return content(text("The list of prompts has changed."))


# Tools that need input from the client: by a request with sessions, or else by an input_required result.


def form(message, required=None, **properties):
    schema = {"type": "object", "properties": properties,
              "required": list(properties) if required is None else required}
    return {"message": message, "requestedSchema": schema}


def sampling_params(prompt, max_tokens=100):
    return {"messages": [{"role": "user", "content": text(prompt)}], "maxTokens": max_tokens}


def sampling(call):
    params = sampling_params(call.arguments.get("prompt", ""))
    response = call.request_input("sampling/createMessage", params)
    return content(text(f"The model says: {response['content']['text']}"))


def elicit(call, params):
    response = call.request_input("elicitation/create", params)
    return content(text(f"{response['action']}: {json.dumps(response.get('content'))}"))


def elicitation(call):
    return elicit(call, form(call.arguments.get("message", ""), username=STRING, email=STRING))


def elicitation_defaults(call):
    return elicit(call, form(
        "Your profile?", [], name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30}, score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True}))


def elicitation_enums(call):
    plain, values = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
    titled = [{"const": value, "title": value.title()} for value in values]
    return elicit(call, form(
        "Which?", [], untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}}))


# Tools that need input from the client without sessions: by an input_required result.


def input_required(requests, state=None):
    more = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **more}


NAME = {"method": "elicitation/create", "params": form("Your name?", name={"type": "string"})}
COLOR = {"method": "elicitation/create", "params": form("A color?", color={"type": "string"})}
CONFIRM = {"method": "elicitation/create", "params": form("Sure?", ok={"type": "boolean"})}
CONTEXT = {"method": "elicitation/create", "params": form("About?", context={"type": "string"})}
CAPITAL = {"method": "sampling/createMessage", "params": sampling_params("The capital of France?")}
GREETING = {"method": "sampling/createMessage", "params": sampling_params("Greet.", 50)}
ROOTS = {"method": "roots/list", "params": {}}
REQUIRED_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling",
                         "roots/list": "roots"}


def input_responses(call):
    """The input responses of the client; values that are not objects are ignored."""
    responses = call.params.get("inputResponses", {})
    if not isinstance(responses, dict):
        raise RpcError(-32602, "inputResponses must be an object")
    return {key: value for key, value in responses.items() if isinstance(value, dict)}


class InputRequired(Exception):
    """Carries the input_required result of a tool that cannot continue without input."""

    def __init__(self, result):
        super().__init__("input is required")
        self.result = result


def single_input(call, method, params):
    """The response to the only input request of a tool; raises InputRequired if there is none yet."""
    response = input_responses(call).get("answer")
    if response is None:
        raise InputRequired(input_required({"answer": {"method": method, "params": params}}))
    return response


def requesting(**requests):
    def tool(call):
        if all(key in input_responses(call) for key in requests):
            return content(text(json.dumps(input_responses(call))))
        return input_required(requests)
    return tool


def sign(state):
    return f"{state}.{hmac.new(SIGNING_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def verified_state(call):
    """The request state that the client returned, if its signature is valid."""
    signed = call.params.get("requestState")
    if signed is None:
        return None
    state = signed.rpartition(".")[0]
    if not hmac.compare_digest(sign(state), signed):
        raise RpcError(-32602, "requestState is not one of this server")
    return state


def requesting_in_rounds(*rounds):
    """Each round requests other input; the request state is the number of rounds started."""
    def tool(call):
        started = int(verified_state(call) or 0)
        if started and all(key in input_responses(call) for key in rounds[started - 1]):
            if started == len(rounds):
                return content(text("state-ok"))
            return input_required(rounds[started], sign(str(started + 1)))
        return input_required(rounds[max(started - 1, 0)], sign(str(max(started, 1))))
    return tool


def requesting_by_capabilities(call):
    requests = {"name": NAME, "capital": CAPITAL, "roots": ROOTS}
    supported = {key: request for key, request in requests.items()
                 if REQUIRED_CAPABILITIES[request["method"]] in call.capabilities}
    return input_required(supported)


def missing_capability(call):
    if "sampling" not in call.capabilities:
        raise RpcError(-32021, "sampling is needed", {"requiredCapabilities": {"sampling": {}}}, 400)
    return content(text("The client can sample."))


def streaming_elicitation(call):
    call.progress(1, 2)
    return requesting(user_name=NAME)(call)


ADDRESS_SCHEMA = {"$anchor": "addressDef", "type": "object",
                  "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
CONTACT_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "$defs": {"address": ADDRESS_SCHEMA},
    "properties": {
        "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]}, "else": {"required": ["email"]},
    "additionalProperties": False,
}


def object_schema(**properties):
    return {"type": "object", "properties": properties}


PREFIX = "test_input_required_result_"
TOOLS = {
    "test_simple_text": (simple_text, object_schema()),
    "test_image_content": (image_content, object_schema()),
    "test_audio_content": (audio_content, object_schema()),
    "test_embedded_resource": (embedded_resource, object_schema()),
    "test_multiple_content_types": (multiple_content_types, object_schema()),
    "test_error_handling": (error_handling, object_schema()),
    "test_tool_with_logging": (with_logging, object_schema()),
    "test_logging_tool": (with_logging, object_schema()),
    "test_tool_with_progress": (with_progress, object_schema()),
    "test_trigger_tool_change": (trigger_tool_change, object_schema()),
    "test_trigger_prompt_change": (trigger_prompt_change, object_schema()),
    "test_sampling": (sampling, object_schema(prompt=STRING)),
    "test_elicitation": (elicitation, object_schema(message=STRING)),
    "test_elicitation_sep1034_defaults": (elicitation_defaults, object_schema()),
    "test_elicitation_sep1330_enums": (elicitation_enums, object_schema()),
    "test_missing_capability": (missing_capability, object_schema()),
    "test_streaming_elicitation": (streaming_elicitation, object_schema()),
    PREFIX + "elicitation": (requesting(user_name=NAME), object_schema()),
    PREFIX + "sampling": (requesting(capital_question=CAPITAL), object_schema()),
    PREFIX + "list_roots": (requesting(client_roots=ROOTS), object_schema()),
    PREFIX + "request_state": (requesting_in_rounds({"confirm": CONFIRM}), object_schema()),
    PREFIX + "tampered_state": (requesting_in_rounds({"confirm": CONFIRM}), object_schema()),
    PREFIX + "multi_round": (requesting_in_rounds({"step1": NAME}, {"step2": COLOR}), object_schema()),
    PREFIX + "multiple_inputs": (requesting_in_rounds(
        {"user_name": NAME, "greeting": GREETING, "client_roots": ROOTS}), object_schema()),
    PREFIX + "capabilities": (requesting_by_capabilities, object_schema()),
    "test_custom_header": (custom_header, object_schema(region={**STRING, "x-mcp-header": "Region"})),
    "json_schema_2020_12_tool": (simple_text, CONTACT_SCHEMA),
}


# Resources.

RESOURCES = {
    "test://static-text": ("text/plain", {"text": "Static text."}),
    "test://static-binary": ("image/png", {"blob": PNG}),
    "test://watched-resource": ("text/plain", {"text": "A watched resource."}),
}
TEMPLATE = "test://template/{id}/data"


def read_resource(uri):
    before, after = TEMPLATE.split("{id}")
    if uri.startswith(before) and uri.endswith(after):
        data = json.dumps({"id": uri[len(before):-len(after)], "templateTest": True})
        return {"uri": uri, "mimeType": "application/json", "text": data}
    if uri not in RESOURCES:
        raise RpcError(-32602, "there is no such resource", {"uri": uri})
    mime_type, contents = RESOURCES[uri]
    return {"uri": uri, "mimeType": mime_type, **contents}


# Prompts.


def message(block):
    return {"role": "user", "content": block}


def prompt(*messages):
    return {"messages": list(messages)}


def input_prompt(call):
    if "user_context" not in input_responses(call):
        return input_required({"user_context": CONTEXT})
    return prompt(message(text(json.dumps(input_responses(call)))))


PROMPTS = {
    "test_simple_prompt": (lambda call: prompt(message(text("A plain prompt."))), ()),
    "test_prompt_with_arguments": (
        lambda call: prompt(message(text(json.dumps(call.arguments)))), ("arg1", "arg2")),
    "test_prompt_with_embedded_resource": (
        lambda call: prompt(
            message(resource(call.arguments.get("resourceUri"), "text/plain", text="An embedded resource.")),
            message(text("Look at it."))),
        ("resourceUri",)),
    "test_prompt_with_image": (
        lambda call: prompt(message({"type": "image", "data": PNG, "mimeType": "image/png"}),
                            message(text("Look at it."))), ()),
    "test_input_required_result_prompt": (input_prompt, ()),
}
