"""The tool of LangChain, in agents of LangChain with a model that is scripted."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException, tool
from langchain_core.tools import Tool as SingleTool
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from support import ExecutorTest

import execbox
from execbox.adapters.langchain import code_tool, sync_code_tool


async def list_orders(status: str, limit: int = 2) -> list[dict[str, int]]:
    """Lists orders."""
    return [{"id": number, "total": 40} for number in range(limit)]


class Query(BaseModel):
    id: int
    fields: list[str] = ["name"]


@tool(args_schema=Query)
def get_customer(id: int, fields: list[str], config: RunnableConfig) -> dict[str, Any]:
    """Returns a customer."""
    return {"id": id, "fields": fields, "user": config["configurable"]["user"]}


@tool
async def refuse(id: int, secret: Annotated[str, InjectedToolArg] = "") -> str:
    """Fails."""
    raise ToolException(f"no order {id}")


refuse.handle_tool_error = True


class Scripted(BaseChatModel):
    """Runs code, and answers with what it has read."""

    codes: list[str]
    tools: list[Any] = []
    read: list[ToolMessage] = []

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        self.tools = tools
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.read += [message for message in messages[-1:] if isinstance(message, ToolMessage)]
        message = AIMessage("done")
        if self.codes:
            call = {"name": self.tools[0].name, "args": {"code": self.codes.pop(0)}, "id": "1", "type": "tool_call"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


QUESTION: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"user": "Ada"}}


class Started(BaseCallbackHandler):
    """The tools that were started."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_tool_start(self, serialized: Any, *arguments: Any, **options: Any) -> None:
        self.names.append(serialized["name"])


class LangChain(ExecutorTest):
    async def run_codes(self, tools: Any, *codes: str, **options: Any) -> Scripted:
        model = Scripted(codes=list(codes))
        agent = create_agent(model, tools=[await code_tool(self.box, tools, **{"timeout": 60, **options})])
        await agent.ainvoke(QUESTION, {**CONFIG, "callbacks": [self.started]})
        return model

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.started = Started()

    async def test_an_agent_runs_code_that_calls_its_tools(self) -> None:
        model = await self.run_codes(
            {"shop": [list_orders], "crm": [get_customer]},
            "const orders = await shop.list_orders({ status: 'open' });\n"
            "console.log('one call');\n"
            "return { count: orders.length, customer: await crm.get_customer({ id: 7 }) };",
        )
        expected = '{"count":2,"customer":{"id":7,"fields":["name"],"user":"Ada"}}\n\nLogs:\none call'
        self.assertEqual([message.content for message in model.read], [expected])
        if sys.version_info >= (3, 11):
            self.assertEqual(self.started.names, ["run_code", "get_customer"])
        self.assertIn("function get_customer(input: {", model.tools[0].description)
        self.assertEqual(model.tools[0].tool_call_schema["required"], ["code"])

    async def test_failures_of_tools_and_programs_are_read(self) -> None:
        caught = "try { await crm.refuse({ id: 7 }) } catch (error) { return error.message }"
        model = await self.run_codes(
            {"crm": [refuse, get_customer]},
            caught,
            "await crm.refuse({ id: 8 })",
            "await crm.get_customer({ id: 'x' })",
        )
        texts = [(message.status, str(message.content)) for message in model.read]
        self.assertEqual(texts[0], ("success", "no order 7"))
        self.assertEqual([status for status, _ in texts], ["success", "error", "error"])
        self.assertIn("tool_error: no order 8", texts[1][1])
        self.assertIn("validation_error: Invalid input for crm.get_customer: input.id", texts[2][1])
        self.assertNotIn("secret", model.tools[0].description)
        self.assertTrue(refuse.handle_tool_error, "the tool is as it was")

    async def test_a_run_that_is_cancelled_ends_the_program_and_its_tools(self) -> None:
        await self.check_cancellation(lambda hang: self.run_codes({"crm": [tool(hang)]}, "await crm.hang()"))

    async def test_agents_without_asyncio(self) -> None:
        def work() -> list[tuple[str, Any]]:
            with execbox.SyncExecutor("inline") as box:
                box_tool = sync_code_tool(box, {"crm": [get_customer, refuse], "shop": [list_orders]}, timeout=60)
                codes = ["return crm.get_customer({ id: 7 })", "return crm.refuse({ id: 7 })"]
                model = Scripted(codes=codes)
                create_agent(model, tools=[box_tool]).invoke(QUESTION, CONFIG)
                return [(message.status, message.content) for message in model.read]

        read = await asyncio.to_thread(work)
        self.assertEqual(read[0], ("success", '{"id":7,"fields":["name"],"user":"Ada"}'))
        self.assertEqual(read[1][0], "error")
        self.assertIn("tool_error: no order 7", read[1][1])

    async def test_invalid_arguments_of_the_model_are_answered(self) -> None:
        run_code = await code_tool(self.box, {}, timeout=60)
        for input in [{}, {"source": "1"}, {"code": 7}]:
            self.assertEqual(await run_code.ainvoke(input), 'invalid input for run_code: expected {"code": "…"}')
        self.assertEqual(await run_code.ainvoke({"code": "1", "more": 2}), "1")

    async def test_results_that_are_not_json_fail_the_call(self) -> None:
        def odd() -> object:
            """Returns an object."""
            return object()

        model = await self.run_codes({"crm": [StructuredTool.from_function(odd)]}, "await crm.odd()")
        self.assertIn("odd has returned what is not JSON", str(model.read[0].content))

    async def test_what_cannot_be_mapped(self) -> None:
        @tool
        def state(id: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
            """Needs the state."""
            raise AssertionError

        @tool
        def runtime(runtime: ToolRuntime) -> str:
            """Needs the runtime."""
            raise AssertionError

        @tool
        def call(id: Annotated[str, InjectedToolCallId]) -> str:
            """Needs the id of the call."""
            raise AssertionError

        for refused, name in [(state, "state"), (runtime, "runtime"), (call, "id")]:
            with self.assertRaisesRegex(TypeError, f"{refused.name} needs '{name}', which is injected"):
                await code_tool(self.box, {"crm": [refused]})

        @tool
        def go() -> Any:
            """Returns a command."""
            return Command(goto="end")

        @tool
        def ask() -> Any:
            """Asks a person."""
            return interrupt("sure?")

        @tool(response_format="content_and_artifact")
        def report() -> Any:
            """Returns an artifact."""
            return {"rows": 1}, object()

        single = SingleTool("shout", lambda text: f"{text}!", "Takes one text.")
        model = await self.run_codes(
            {"crm": [go, ask, report, single]},
            "await crm.go()",
            "await crm.ask()",
            "return [await crm.report(), await crm.shout({ __arg1: 'a' })]",
        )
        texts = [str(message.content) for message in model.read]
        self.assertIn("go has returned a Command, which only an agent can follow", texts[0])
        self.assertIn("tool_error", texts[1])
        self.assertEqual(texts[2], '[{"rows":1},"a!"]')
