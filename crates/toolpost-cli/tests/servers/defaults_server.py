"""An MCP server on the official SDK, which validates arguments and results, with many defaults.

The transport is standard input and output. The SDK validates arguments and results by the schemas.
"""

import asyncio

import mcp.server.stdio
from mcp import types
from mcp.server.lowlevel import Server

# Defaults that do not fit, and one that excludes another property.
JOB = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "state": {"type": "string", "default": None},
        "mode": {"enum": ["FAST", "SLOW"], "default": "fast"},
        "owner": {"type": "object", "properties": {"name": {"type": "string"}},
                  "required": ["name"], "default": {}},
        "left": {"type": "integer"},
        "right": {"type": "integer", "default": 1},
    },
    "oneOf": [{"required": ["left"]}, {"required": ["right"]}],
}

server = Server("defaults")


@server.list_tools()
async def list_tools():
    read_only = types.ToolAnnotations(readOnlyHint=True)
    return [types.Tool(name="job", description="Returns a job.", inputSchema={"type": "object"},
                       outputSchema=JOB, annotations=read_only)]


@server.call_tool()
async def call_tool(name, arguments):
    return {"id": 1, "left": 2}


async def main():
    async with mcp.server.stdio.stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


asyncio.run(main())
