"""Python's mcp, 1.x or 2.x, whichever is installed; jobs and answers as in jobs.mjs.

Whatever it is asked meanwhile, it answers.
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
IS_NEW = hasattr(mcp, "Client")


async def elicited(context, params):
    schema = params.requested_schema if IS_NEW else params.requestedSchema
    texts = [name for name, field in schema["properties"].items() if field["type"] == "string"]
    return ElicitResult(action="accept", content={name: "blue" for name in texts})


async def sampled(context, params):
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Paris"),
                               model="none")


async def rooted(context):
    return ListRootsResult(roots=[Root(uri="file:///there")])


ANSWERS = {"elicitation_callback": elicited, "sampling_callback": sampled,
           "list_roots_callback": rooted}


@contextlib.asynccontextmanager
async def opened(job):
    """A client, and the version that it agreed on."""
    command = job.get("command")
    stdio = command and StdioServerParameters(command=command[0], args=command[1:])
    if IS_NEW:
        mode = "auto" if job["era"] == "modern" else "legacy"
        async with mcp.Client(stdio or job["url"], mode=mode, **ANSWERS) as client:
            yield client, client.protocol_version
        return
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    streams = stdio_client(stdio) if stdio else streamable_http_client(job["url"])
    async with streams as (read, write, *_), mcp.ClientSession(read, write, **ANSWERS) as client:
        yield client, (await client.initialize()).protocolVersion


async def listed(client):
    names, cursor = [], None
    while True:
        page = await client.list_tools(**({"cursor": cursor} if cursor else {}))
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor if IS_NEW else page.nextCursor
        if not cursor:
            return names


async def called(client, call):
    try:
        result = await client.call_tool(call["name"], call["arguments"])
    except Exception as error:
        return {"thrown": f"{type(error).__name__}: {error}"}
    # What was not sent is left out, and what was sent as null is not.
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_unset=True)}


async def run(job):
    async with opened(job) as (client, protocol):
        tools = await listed(client)
        answers = [await called(client, call) for call in job["calls"]]
        return {"protocol": protocol, "tools": tools, "answers": answers}


def reasons(error):
    """The words of an error, and of those inside a group of them."""
    inner = getattr(error, "exceptions", ())
    return "; ".join(map(reasons, inner)) or f"{type(error).__name__}: {error}"


for line in sys.stdin:
    try:
        answer = asyncio.run(run(json.loads(line)))
    except BaseException as error:
        answer = {"failed": reasons(error)}
    print(json.dumps({"version": VERSION, **answer}), flush=True)
