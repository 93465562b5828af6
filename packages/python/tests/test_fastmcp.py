"""The sandbox of FastMCP's code mode, in servers of FastMCP with a client of FastMCP."""

from __future__ import annotations

import contextlib
import logging
import resource
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from support import ExecutorTest

import execbox
from execbox.adapters.fastmcp import CodeMode, SandboxProvider

logging.getLogger("fastmcp").setLevel(logging.CRITICAL)  # failed calls are expected


def server(box: Any, **options: Any) -> FastMCP:
    provider = SandboxProvider(box, **{"timeout": 60, **options})
    mcp = FastMCP("Shop", transforms=[CodeMode(sandbox_provider=provider, max_tool_calls=5)])

    @mcp.tool
    def list_orders(status: str, limit: int = 2) -> list[dict[str, int]]:
        """Lists orders."""
        return [{"id": number, "total": 40} for number in range(limit)]

    @mcp.tool
    def refuse(id: int) -> str:
        raise ToolError(f"no order {id}")

    return mcp


class FastMcp(ExecutorTest):
    async def execute(self, *codes: str, **options: Any) -> list[tuple[bool, str]]:
        read = []
        async with Client(server(self.box, **options)) as client:
            for code in codes:
                result = await client.call_tool("execute", {"code": code}, raise_on_error=False)
                read.append((result.is_error, "".join(block.text for block in result.content)))
        return read

    async def test_a_client_runs_code_that_calls_the_tools_of_the_server(self) -> None:
        read = await self.execute(
            "const { result } = await call_tool('list_orders', { status: 'open' });\n"
            "// the sum\n"
            "return { sum: result.reduce((sum, { total }) => sum + total, 0) } // as JSON",
            "const call_tool = 7; return [call_tool, new Set([1]), new Map([['a', 1n]]), new Uint8Array(1), new Date(0)]",
            "",
        )
        values = '[7,[1],[["a","1"]],[0],"1970-01-01T00:00:00.000Z"]'
        self.assertEqual(read, [(False, '{"sum":80}'), (False, values), (False, "")])

    async def test_descriptions_say_that_code_is_javascript(self) -> None:
        async with Client(server(self.box)) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            self.assertEqual(list(tools), ["search", "get_schema", "execute"])
            found = await client.call_tool("search", {"query": "orders"})
        text = str(tools["execute"].model_dump())
        self.assertIn("JavaScript or TypeScript", text)
        self.assertNotIn("Python", text)
        self.assertIn("list_orders", str(found.content))

    async def test_failures_of_tools_and_programs_are_read(self) -> None:
        read = await self.execute(
            "try { await call_tool('refuse', { id: 7 }) } catch (error) { return error.message }",
            "console.log('first', { a: 1 });\nawait call_tool('refuse', { id: 8 })",
            "await call_tool('nothing', {})",
            "\nnull.x",
            "return (",
            "for (let i = 0; i < 9; i++) await call_tool('list_orders', { status: 'open' })",
            "let value = 'x'.repeat(1000); for (let i = 0; i < 40; i++) value = [value, value]; return value",
        )
        self.assertEqual([is_error for is_error, _ in read], [False, True, True, True, True, True, True])
        parts = [
            "no order 7",
            '(line 2)\n\nLogs:\nfirst {"a":1}',
            "Unknown tool: nothing",
            "of null (line 2)",
        ]
        for (_, text), part in zip(read, [*parts, "SyntaxError", "Tool call limit exceeded", "emory"]):
            self.assertIn(part, text)

    async def test_limits_are_those_of_programs(self) -> None:
        read = await self.execute("for (;;);", timeout=0.1)
        self.assertTrue(read[0][0])
        self.assertIn("stopped by the safety cap of 0.1 s", read[0][1])

    async def test_hostile_programs_cost_the_application_little(self) -> None:
        repeat = "for (let i = 0; i < 40; i++) value = [value, value];"
        maps = "for (let i = 0; i < 40; i++) value = new Map([['a', value], ['b', value]]);"
        codes = [
            f"let value = 'x'; {repeat} console.log(value); throw new Error('no')",
            f"let value = 'x'; {maps} console.log(value); throw new Error('no')",
            "const cycle = {}; cycle.a = cycle; console.log(cycle, NaN, /a/, new Error('e')); throw new Error('no')",
            "for (let i = 0; i < 1e5; i++) console.log('x'.repeat(1000)); throw new Error('no')",
            "throw new Error('x'.repeat(4e6))",
            "return Array(4e5).fill([])",
            "})()) || 7; JSON.stringify(await (async () => {",
            "})()) || '['.repeat(1e5); JSON.stringify(await (async () => {",
            "})()) || 'x'.repeat(5e6); JSON.stringify(await (async () => {",
        ]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for code in codes:
            with self.assertRaises(ToolError, msg=code) as raised:
                await SandboxProvider(self.box, timeout=60).run(code)
            self.assertLess(len(str(raised.exception)), 30_000, code)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLess(grown, 200 << 10, "in KiB")

    async def test_options_hold_for_each_program(self) -> None:
        def pay(id: int) -> None:
            raise AssertionError

        rules = iter([execbox.Rule("deny", reason="not today")])
        provider = SandboxProvider(self.box, timeout=60, policy=rules, tools={"bank": iter([pay])})
        for _ in range(2):
            with self.assertRaisesRegex(ToolError, "not today"):
                await provider.run("await (await import('bank')).pay({ id: 1 })")

    async def test_the_provider_alone(self) -> None:
        provider = SandboxProvider(self.box, timeout=60)

        def add(first: int, second: int) -> int:
            return first + second

        inputs = {"values": [1, 2], "text": "\u2028`'</script>", "object": {"__proto__": 1}}
        code = "return [await add(...values), text, Object.keys(object)]"
        value = await provider.run(code, inputs=inputs, external_functions={"add": add})
        self.assertEqual(value, [3, "\u2028`'</script>", ["__proto__"]])
        self.assertIsNone(await provider.run("1 + 1"))
        with self.assertRaisesRegex(ToolError, "missing 1 required positional argument"):
            await provider.run("await add(1)", external_functions={"add": add})
        deep = "let deep = []; for (let i = 0; i < DEPTH; i++) deep = [deep]; return deep"
        with self.assertRaisesRegex(ToolError, "Maximum call stack"):
            await provider.run(deep.replace("DEPTH", "5000"))
        with contextlib.suppress(ToolError):  # which versions of Python raise
            await provider.run(deep.replace("DEPTH", "1500"))
        with self.assertRaisesRegex(ToolError, "invalid global name 'a-b'"):
            await provider.run("1", external_functions={"a-b": add})
        with self.assertRaisesRegex(TypeError, "has no option 'timeuot'; did you mean timeout"):
            SandboxProvider(self.box, timeuot=5)  # type: ignore[call-arg]

    async def test_a_call_that_is_cancelled_ends_the_program_and_its_functions(self) -> None:
        provider = SandboxProvider(self.box, timeout=60)
        await self.check_cancellation(lambda hang: provider.run("await hang()", external_functions={"hang": hang}))
