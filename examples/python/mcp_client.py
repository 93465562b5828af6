"""The tools of an MCP server as tools of a program, through a session of the official SDK: `pip install mcp`, version 2.

An application that has no session of its own needs none: `execbox.Executor(servers={"notes": "python3 mcp_server.py"})`.
"""

import asyncio
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import execbox

PROGRAM = """
const { result: names } = await notes.list_notes({});
const all = await Promise.all(names.map((name) => notes.read_note({ name })));
const about = all.filter(({ text }) => text.includes("tent"));
const words = await text.count_words({ texts: about.map(({ text }) => text) });
({ read: all.length, about: about.map(({ name }) => name), words })
"""


async def count_words(texts: list[str]) -> int:
    """Counts the words of texts."""
    return sum(len(text.split()) for text in texts)


async def main() -> None:
    server = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("mcp_server.py"))])
    async with stdio_client(server) as streams, ClientSession(*streams) as session, execbox.Executor() as box:
        await session.initialize()
        offered = await execbox.mcp_tools(session)
        granted = [tool for tool in offered if tool.effect == "read_only"]
        print(len(offered), "tools,", len(granted), "granted:")
        tools: execbox.Tools = {"notes": granted, "text": [count_words]}
        print(await box.types(tools))
        print((await box.run(PROGRAM, tools=tools, timeout=60)).raise_for_error().value)
        print((await box.run("await notes.delete_note({ name: 'route' })", tools=tools, timeout=60)).error)


asyncio.run(main())
