"""An MCP server on standard input and output, built with version 1 of the official Python SDK.

    sdk_stdio_server.py FILE

It exits at once if FILE exists. The tool `crash` creates FILE and ends the process.
"""

import os
import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP

file = Path(sys.argv[1])
if file.exists():
    sys.exit("the database is locked")
server = FastMCP("python", log_level="ERROR")


@server.tool()
def note(text: str) -> str:
    """Writes a line to standard error."""
    print(text, file=sys.stderr, flush=True)
    return "noted"


@server.tool()
def crash() -> str:
    file.touch()
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(3)


server.run()
