"""The tool with which a model runs code, for any framework."""

from __future__ import annotations

import asyncio
from typing import Any

from support import ExecutorTest

import execbox


async def list_orders(status: str) -> list[str]:
    """Lists orders."""
    return [status]


class CodeTools(ExecutorTest):
    async def test_a_model_reads_descriptions_and_texts(self) -> None:
        tool = await self.box.code_tool({"shop": [list_orders]}, name="shop_code", timeout=60)
        self.assertEqual((tool.name, tool.input_schema["required"]), ("shop_code", ["code"]))
        self.assertIn("function list_orders(input: { status: string }): Promise<string[]>", tool.description)
        result = await tool.run("console.log(1); return await shop.list_orders({ status: 'open' })")
        self.assertEqual((result.ok, result.value, result.text), (True, ["open"], '["open"]\n\nLogs:\n1'))
        failed = await tool.run("await shop.list()")
        self.assertIn("shop.list is not a function; shop has list_orders", str(failed.text))
        self.assertFalse(failed.ok)

    async def test_options_are_those_of_each_program(self) -> None:
        tool = await self.box.code_tool(
            {"shop": [list_orders]},
            timeout=60,
            timers=True,
            max_type_chars=0,
            max_text_chars=100,
            policy=[execbox.Rule("deny", reason="not today")],
        )
        self.assertIn("`setTimeout`", tool.description)
        self.assertNotIn("list_orders", tool.description)
        self.assertIn("not today", str((await tool.run("await shop.list_orders({ status: '' })")).text))
        self.assertIn("(the result has 9000 characters: return less)", str((await tool.run("'x'.repeat(9000)")).text))
        self.assertIsNone((await self.box.run("1", timeout=60)).text)
        self.assertEqual((await self.box.run("1", timeout=60, max_text_chars=10)).text, "1")

    async def test_tools_can_be_given_once_and_called_by_many_programs(self) -> None:
        tool = await self.box.code_tool({"shop": iter([list_orders])}, timeout=60)
        results = await asyncio.gather(*[tool.run("return shop.list_orders({ status: 'a' })") for _ in range(5)])
        self.assertEqual([result.text for result in results], ['["a"]'] * 5)
        rules = iter([execbox.Rule("deny", reason="not today")])
        denying = await self.box.code_tool({"shop": [list_orders]}, timeout=60, policy=rules)
        for _ in range(2):
            self.assertIn("not today", str((await denying.run("await shop.list_orders({ status: 'a' })")).text))

    async def test_mistakes_are_refused_at_once(self) -> None:
        refused: list[tuple[Any, dict[str, Any], str]] = [
            ({}, {"timeuot": 1}, r"code_tool\(\) has no option 'timeuot'; did you mean timeout\?"),
            ({}, {"tools": {}}, r"code_tool\(\) has no option 'tools'"),
            ({}, {"control": execbox.Control()}, r"code_tool\(\) has no option 'control'"),
            ([list_orders], {}, "tools must be a mapping"),
            ({"shop": list_orders}, {}, "the tools of 'shop' must be a list"),
            ({"shop": [7]}, {}, "7 is not a tool"),
        ]
        for tools, options, message in refused:
            with self.assertRaisesRegex(TypeError, message):
                await self.box.code_tool(tools, **options)
        with self.assertRaisesRegex(execbox.ServiceError, 'server "github" cannot be granted'):
            await self.box.code_tool({}, servers=["github"])

    async def test_without_asyncio(self) -> None:
        def work() -> tuple[str, str | None]:
            with execbox.SyncExecutor() as box:
                tool = box.code_tool({"shop": [list_orders]}, timeout=60)
                return tool.name, tool.run("return shop.list_orders({ status: 'open' })").text

        self.assertEqual(await asyncio.to_thread(work), ("run_code", '["open"]'))
