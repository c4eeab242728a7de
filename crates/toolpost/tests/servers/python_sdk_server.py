"""An MCP server for protocol 2026-07-28, built with the official Python SDK.

    python_sdk_server.py stdio
    python_sdk_server.py http PORT
"""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("modern", version="1.0", instructions="Sums and words.", log_level="ERROR")
READ_ONLY = ToolAnnotations(readOnlyHint=True)


class Place(BaseModel):
    city: str
    height: float


@server.tool(annotations=READ_ONLY)
def add(a: int, b: int) -> int:
    return a + b


@server.tool(annotations=READ_ONLY)
def place(city: str) -> Place:
    return Place(city=city, height=408.5)


@server.tool(annotations=READ_ONLY)
def words(text: str) -> list[str]:
    return text.split()


@server.tool(annotations=READ_ONLY, structured_output=False)
def shout(text: str) -> str:
    return text.upper()


@server.tool()
def fail(reason: str) -> str:
    raise ValueError(reason)


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    for step in range(count):
        await ctx.report_progress(step + 1, count)
    return "done"


@server.resource("note://{name}")
def note(name: str) -> str:
    return f"a note about {name}"


@server.resource("static://motto", mime_type="text/plain")
def motto() -> str:
    return "less, but better"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


if sys.argv[1] == "http":
    server.run("streamable-http", port=int(sys.argv[2]))
else:
    server.run("stdio")
