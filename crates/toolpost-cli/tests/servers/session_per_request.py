"""A client built with version 1 of the official Python SDK that opens a session for each request.

    session_per_request.py URL

Sends all requests at once and prints their results as one JSON list.
"""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def session(request):
    async with streamablehttp_client(sys.argv[1]) as (reader, writer, _):
        async with ClientSession(reader, writer) as client:
            await client.initialize()
            result = await request(client)
            return result.model_dump(mode="json")


async def main():
    results = await asyncio.gather(
        session(lambda client: client.call_tool("all__echo", {"message": "one"})),
        session(lambda client: client.get_prompt("all__simple-prompt")),
        session(lambda client: client.read_resource(
            "toolpost:all:demo://resource/static/document/features.md")),
        session(lambda client: client.call_tool("hub__search", {"query": "echo"})),
        session(lambda client: client.list_tools()),
        return_exceptions=True,
    )
    print(json.dumps([result if isinstance(result, dict) else str(result) for result in results]))


asyncio.run(main())
