"""An MCP server over HTTP, built with version 1 of the official Python SDK.

    sdk_http_server.py TRANSPORT PORT

TRANSPORT is `sse`, the transport of 2024-11-05 at /sse, or `streamable-http` at /mcp.
"""

import sys
from pathlib import Path

import anyio
from mcp.server.fastmcp import Context, FastMCP

transport, port = sys.argv[1], int(sys.argv[2])
server = FastMCP("python", host="127.0.0.1", port=port, log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def steps(count: int, context: Context) -> str:
    for step in range(count):
        await context.report_progress(step + 1, count)
    return f"{count} steps"


@server.tool()
async def wait(file: str) -> str:
    """Waits until it is canceled. Creates FILE.started and FILE.canceled."""
    Path(file + ".started").touch()
    try:
        await anyio.sleep(600)
    finally:
        Path(file + ".canceled").touch()
    return "waited"


server.run(transport=transport)
