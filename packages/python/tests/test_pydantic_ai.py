"""The toolset of Pydantic AI, in agents of Pydantic AI with a model that is scripted."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    FunctionToolset,
    ModelMessage,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolReturn,
    UsageLimits,
)
from pydantic_ai.capabilities.abstract import AbstractCapability
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.function import AgentInfo, FunctionModel
from support import ExecutorTest

import execbox
from execbox.adapters.pydantic_ai import code_toolset


class Order(BaseModel):
    id: int
    total: float


async def list_orders(ctx: RunContext[str], status: str, limit: int = 2) -> list[Order]:
    """Lists orders.

    Args:
        status: `open` or `shipped`.
    """
    return [Order(id=number, total=40) for number in range(limit)]


def whoami(ctx: RunContext[str]) -> ToolReturn[str]:
    return ToolReturn(ctx.deps, metadata={"seen": True})


def refuse(id: int) -> None:
    raise ModelRetry(f"no order {id}")


def twice(value: int) -> int:
    return 2 * value


class PydanticAi(ExecutorTest):
    async def run_codes(
        self, tools: Any, *codes: str, usage_limits: UsageLimits | None = None, capabilities: Any = (), **options: Any
    ) -> Any:
        """Runs an agent. Gives what the model has read, and what it knows."""
        waiting, read = list(codes), []
        seen: list[AgentInfo] = []

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen.append(info)
            read.extend(
                (part.part_kind, getattr(part, "outcome", None), part.content)
                for part in messages[-1].parts
                if part.part_kind in ("tool-return", "retry-prompt")
            )
            if waiting:
                name = options.get("name", "run_code")
                return ModelResponse([ToolCallPart(name, {"code": waiting.pop(0)}, tool_call_id=f"call{len(read)}")])
            return ModelResponse([TextPart("done")])

        toolset = tools if isinstance(tools, FunctionToolset) else FunctionToolset(tools)
        agent = Agent(
            FunctionModel(model),
            deps_type=str,
            capabilities=capabilities,
            toolsets=[code_toolset(self.box, toolset, **{"timeout": 60, **options})],
        )
        result = await agent.run("go", deps="Ada", usage_limits=usage_limits)
        self.usage = result.usage
        return [(outcome, content) for _, outcome, content in read], seen[-1].function_tools

    async def test_an_agent_runs_code_that_calls_its_tools(self) -> None:
        read, tools = await self.run_codes(
            [list_orders, whoami],
            "const orders = await shop.list_orders({ status: 'open' });\n"
            "console.log(await shop.whoami());\n"
            "return orders.map(({ total }) => util.twice({ value: total }));",
            "return (await Promise.all([util.twice({ value: 20 }), shop.list_orders({ status: 'open', limit: 1 })]))",
            namespace="shop",
            others={"util": [twice]},
        )
        self.assertEqual(read[1], ("success", '[40,[{"id":0,"total":40}]]'))
        self.assertIn("Logs:\nAda", read[0][1])
        (tool,) = tools
        self.assertEqual((tool.name, tool.parameters_json_schema["required"]), ("run_code", ["code"]))
        self.assertIn("/** `open` or `shipped`. */", tool.description)
        self.assertIn("Promise<Order[]>;\n  type Order = { id: number; total: number }", tool.description)
        self.assertIn("declare namespace util", tool.description)

    async def test_failures_of_tools_and_programs_are_read(self) -> None:
        codes = [
            "try { await tools.refuse({ id: 7 }) } catch (error) { return error.message }",
            "await tools.refuse({ id: 8 })",
            "await tools.refuse({ id: 'x' })",
            "await tools.refused()",
            "return (",
        ]
        read, _ = await self.run_codes([refuse], *codes)
        self.assertEqual([outcome for outcome, _ in read], ["success", "failed", "failed", "failed", "failed"])
        self.assertEqual(read[0][1], "no order 7")
        for (_, text), part in zip(
            read[1:], ["tool_error: no order 8", "validation_error", "did you mean tools.refuse", "SyntaxError"]
        ):
            self.assertIn(part, text)

    async def test_calls_are_counted_and_limited_as_those_of_the_agent(self) -> None:
        code = "return (await Promise.all([1, 2, 3].map((value) => tools.twice({ value })))).length"
        await self.run_codes([twice], code)
        self.assertEqual(self.usage.tool_calls, 4, "three of the program, and the program")
        with self.assertRaises(UsageLimitExceeded):
            await self.run_codes([twice], code, usage_limits=UsageLimits(tool_calls_limit=3))

    async def test_options_and_hooks_hold_for_each_program(self) -> None:
        seen: list[str] = []

        class Hook(AbstractCapability[str]):
            async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
                seen.append(f"{call.tool_name} {call.tool_call_id}")
                return args

        rules = iter([execbox.Rule("deny", tools="util.*", reason="not today")])
        codes = ["await tools.twice({ value: 1 }); await util.refuse({ id: 7 })"] * 2
        read, _ = await self.run_codes(
            [twice], *codes, policy=rules, others={"util": iter([refuse])}, capabilities=[Hook()]
        )
        self.assertEqual([("not today" in text) for _, text in read], [True, True])
        self.assertEqual(seen, ["run_code call0", "twice call0_1", "run_code call1", "twice call1_1"])

    async def test_tools_that_programs_cannot_call_stay_tools_of_the_agent(self) -> None:
        tools: FunctionToolset[str] = FunctionToolset([twice])

        @tools.tool_plain(requires_approval=True)
        def pay() -> None:
            raise AssertionError

        @tools.tool_plain
        def pay_later() -> None:
            raise ApprovalRequired

        read, known = await self.run_codes(tools, "await tools.pay_later()", "await tools.pay()")
        self.assertEqual([tool.name for tool in known], ["run_code", "pay"])
        self.assertIn("pay_later waits for an approval", read[0][1])
        self.assertIn("tools.pay is not a function", read[1][1])
        with self.assertRaisesRegex(TypeError, "the agent has a tool 'pay'; name the one that runs code"):
            await self.run_codes(tools, "1", name="pay")

    async def test_a_run_that_is_cancelled_ends_the_program_and_its_tools(self) -> None:
        await self.check_cancellation(lambda hang: self.run_codes([hang], "await tools.hang()"))

    async def test_mistakes_are_refused_at_once(self) -> None:
        toolset: FunctionToolset[None] = FunctionToolset([twice])
        with self.assertRaisesRegex(TypeError, "has no option 'timeuot'; did you mean timeout"):
            code_toolset(self.box, toolset, timeuot=5)  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "'tools' is the namespace of the toolset"):
            code_toolset(self.box, toolset, others={"tools": [twice]})

    async def test_content_of_tools(self) -> None:
        def picture() -> BinaryContent:
            return BinaryContent(b"abc", media_type="image/png")

        def report() -> ToolReturn[int]:
            return ToolReturn(7, content=["more"], metadata={"a": 1})

        read, _ = await self.run_codes([picture, report], "return [await tools.picture(), await tools.report()]")
        picture_json, number = json.loads(read[0][1])
        self.assertEqual((picture_json["data"], picture_json["media_type"], number), ("YWJj", "image/png", 7))
