"""Tools of an MCP server, through the official SDK."""

import os
import sys
import tempfile
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from support import ExecutorTest

import execbox

SERVER = '''
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = Server("shop")

class Order(BaseModel):
    id: str
    total: int

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def get_order(id: str) -> Order:
    """Returns an order."""
    if id == "none":
        raise ValueError("no such order")
    return Order(id=id, total=60)

@server.tool(structured_output=False)
def note(text: str) -> str:
    return text

server.run()
'''


# A server with a page for each tool, and without an end if it is asked for one.
PAGES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    page = int(message.get("params", {}).get("cursor", "0"))
    tools = {"tools": [{"name": f"tool{page}", "inputSchema": {"type": "object"}}]}
    if page < 2 or sys.argv[1:] == ["endless"]: tools["nextCursor"] = str(page + 1)
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}},
        "tools/list": tools,
    }.get(message["method"])
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


class Mcp(ExecutorTest):
    async def test_all_pages_are_read(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "server.py").write_text(PAGES)
            for arguments, expected in [([], ["tool0", "tool1", "tool2"]), (["endless"], None)]:
                parameters = StdioServerParameters(command=sys.executable, args=[f"{place}/server.py", *arguments])
                async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
                    await session.initialize()
                    if expected:
                        self.assertEqual([tool.name for tool in await execbox.mcp_tools(session)], expected)
                    else:
                        with self.assertRaisesRegex(execbox.ExecboxError, "more than 1000 pages of tools"):
                            await execbox.mcp_tools(session)

    async def test_tools_of_a_session_of_the_official_sdk(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "server.py").write_text(SERVER)
            parameters = StdioServerParameters(command=sys.executable, args=[f"{place}/server.py"])
            with open(os.devnull, "w") as log:
                async with stdio_client(parameters, errlog=log) as streams, ClientSession(*streams) as session:
                    await session.initialize()
                    await self.check(await execbox.mcp_tools(session))

    async def check(self, shop: list[execbox.Tool]) -> None:
        self.assertEqual(
            [(tool.name, tool.effect) for tool in shop], [("get_order", "read_only"), ("note", "unstated")]
        )
        types = await self.box.types({"shop": shop})
        self.assertIn("Returns an order", types)
        self.assertIn("total: number", types)
        code = "[await shop.get_order({ id: 'A-7' }), await shop.note({ text: '[1, 2]' }), await shop.note({ text: '1.10' })]"
        self.assertEqual(await self.value(code, tools={"shop": shop}), [{"id": "A-7", "total": 60}, [1, 2], "1.10"])
        error = (await self.box.run("await shop.get_order({ id: 'none' })", tools={"shop": shop})).error
        self.assertEqual(error.code, "tool_error")
        self.assertIn("get_order", error.message)
        error = (await self.box.run("await shop.get_order({ id: 7 })", tools={"shop": shop})).error
        self.assertEqual(error.code, "validation_error")
