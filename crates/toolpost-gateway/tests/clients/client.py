"""The Python package mcp, 1.x or 2.x, whichever is installed; the job format is that of jobs.mjs.

The client responds to elicitation, sampling and roots requests of the server.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import sys

import mcp
from mcp import StdioServerParameters
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

VERSION = importlib.metadata.version("mcp")
IS_VERSION_2 = hasattr(mcp, "Client")


async def handle_elicitation(context, params):
    schema = params.requested_schema if IS_VERSION_2 else params.requestedSchema
    texts = [name for name, field in schema["properties"].items() if field["type"] == "string"]
    return ElicitResult(action="accept", content={name: "blue" for name in texts})


async def handle_sampling(context, params):
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Paris"),
                               model="none")


async def handle_roots(context):
    return ListRootsResult(roots=[Root(uri="file:///there")])


CALLBACKS = {"elicitation_callback": handle_elicitation, "sampling_callback": handle_sampling,
             "list_roots_callback": handle_roots}


@contextlib.asynccontextmanager
async def connect(job):
    """A connected client and the negotiated protocol version."""
    command = job.get("command")
    stdio = command and StdioServerParameters(command=command[0], args=command[1:])
    if IS_VERSION_2:
        mode = "auto" if job["era"] == "modern" else "legacy"
        async with mcp.Client(stdio or job["url"], mode=mode, **CALLBACKS) as client:
            yield client, client.protocol_version
        return
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    streams = stdio_client(stdio) if stdio else streamable_http_client(job["url"])
    async with streams as (read, write, *_), mcp.ClientSession(read, write, **CALLBACKS) as client:
        yield client, (await client.initialize()).protocolVersion


async def list_tools(client):
    names, cursor = [], None
    while True:
        page = await client.list_tools(**({"cursor": cursor} if cursor else {}))
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor if IS_VERSION_2 else page.nextCursor
        if not cursor:
            return names


async def call_tool(client, call):
    try:
        result = await client.call_tool(call["name"], call["arguments"])
    except Exception as error:
        return {"thrown": f"{type(error).__name__}: {error}"}
    # Members that the server did not send are omitted; members that are null are not.
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_unset=True)}


async def run(job):
    async with connect(job) as (client, protocol):
        tools = await list_tools(client)
        responses = [await call_tool(client, call) for call in job["calls"]]
        return {"protocol": protocol, "tools": tools, "answers": responses}


def error_text(error):
    """The message of an error, or the messages of an exception group."""
    inner = getattr(error, "exceptions", ())
    return "; ".join(map(error_text, inner)) or f"{type(error).__name__}: {error}"


for line in sys.stdin:
    try:
        response = asyncio.run(run(json.loads(line)))
    except BaseException as error:
        response = {"failed": error_text(error)}
    print(json.dumps({"version": VERSION, **response}), flush=True)
