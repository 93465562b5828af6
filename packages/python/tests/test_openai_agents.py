"""The function tool of the OpenAI Agents SDK, in runs of the SDK with a model that is scripted."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunContextWrapper,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    Usage,
    WebSearchTool,
    function_tool,
    tool_input_guardrail,
)
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from support import ExecutorTest

from execbox.adapters.openai_agents import code_tool

calls: list[Any] = []


async def list_orders(status: str, limit: int = 2) -> list[dict[str, int]]:
    """Lists orders."""
    return [{"id": number, "total": 40} for number in range(limit)]


@function_tool
def get_customer(context: RunContextWrapper[str], id: int) -> dict[str, Any]:
    """Returns a customer."""
    calls.append((context.context, id))
    return {"id": id, "name": context.context}


@function_tool
async def refuse(context: ToolContext[str]) -> str:
    calls.append(context.tool_call_id)
    raise LookupError("no such order")


class Scripted(Model):
    """Runs code, and answers with what it has read."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.tools: list[Any] = []
        self.read: list[str] = []

    async def get_response(
        self, system_instructions: Any, input: Any, *arguments: Any, **options: Any
    ) -> ModelResponse:
        self.tools = options["tools"] if "tools" in options else arguments[1]
        self.read += [each["output"] for each in input[-1:] if each.get("type") == "function_call_output"]
        if self.codes:
            arguments_ = json.dumps({"code": self.codes.pop(0)})
            call = ResponseFunctionToolCall(
                arguments=arguments_, call_id=f"call{len(self.read)}", name=self.tools[0].name, type="function_call"
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError


class OpenAiAgents(ExecutorTest):
    async def run_codes(self, tools: Any, *codes: str, **options: Any) -> Scripted:
        tool = await code_tool(self.box, tools, **{"timeout": 60, **options})
        model = Scripted(*codes)
        await Runner.run(Agent("Shop", tools=[tool], model=model), "go", context="Ada")
        return model

    async def test_an_agent_runs_code_that_calls_its_tools(self) -> None:
        calls.clear()
        model = await self.run_codes(
            {"shop": [list_orders], "crm": [get_customer]},
            "const orders = await shop.list_orders({ status: 'open' });\n"
            "const customer = await crm.get_customer({ id: 7 });\n"
            "console.log('two calls');\n"
            "return { sum: orders.reduce((sum, { total }) => sum + total, 0), customer };",
        )
        self.assertEqual(model.read, ['{"sum":80,"customer":{"id":7,"name":"Ada"}}\n\nLogs:\ntwo calls'])
        self.assertEqual(calls, [("Ada", 7)])
        tool = model.tools[0]
        self.assertIn("function list_orders(input: { status: string;", tool.description.replace("\n   ", ""))
        self.assertIn("/** Returns a customer. */", tool.description)
        self.assertEqual(tool.params_json_schema["required"], ["code"])
        self.assertTrue(tool.strict_json_schema)

    async def test_failures_of_tools_and_programs_are_read(self) -> None:
        calls.clear()
        caught = "try { await crm.refuse() } catch (error) { return error.message }"
        model = await self.run_codes({"crm": [refuse]}, caught, "await crm.refuse()", "await crm.refused()", "return (")
        self.assertEqual(model.read[0], "no such order")
        self.assertIn("tool_error: no such order", model.read[1])
        self.assertIn("did you mean crm.refuse", model.read[2])
        self.assertIn("SyntaxError", model.read[3])
        self.assertEqual(calls, ["call0_1", "call1_1"])

    async def test_limits_and_options_are_those_of_programs(self) -> None:
        model = await self.run_codes({}, "for (;;);", "'x'.repeat(1000)", timeout=0.1, max_text_chars=100)
        self.assertIn("timed out after 100 ms", model.read[0])
        self.assertIn("(the result has 1000 characters: return less)", model.read[1])
        with self.assertRaisesRegex(TypeError, r"code_tool\(\) has no option 'timeuot'; did you mean timeout\?"):
            await code_tool(self.box, {}, timeuot=5)  # type: ignore[call-arg]

    async def test_invalid_arguments_of_the_model_are_answered(self) -> None:
        tool = await code_tool(self.box, {})
        for arguments in ["", "7", "{}", '{"source": "1"}', '{"code": 7}', "[" * 100_000]:
            context = ToolContext(None, tool_name="run_code", tool_call_id="1", tool_arguments=arguments)
            self.assertIn("invalid input for run_code", await tool.on_invoke_tool(context, arguments))

    async def test_a_run_that_is_cancelled_ends_the_program_and_its_tools(self) -> None:
        await self.check_cancellation(lambda hang: self.run_codes({"crm": [function_tool(hang)]}, "await crm.hang()"))

    async def test_tools_that_are_slow_or_not_enabled_fail(self) -> None:
        @function_tool(timeout=0.01)
        async def slow() -> None:
            await asyncio.sleep(3600)

        @function_tool(is_enabled=lambda context, agent: context.context == "Bob" and agent.name == "Shop")
        async def secret() -> str:
            return "secret"

        model = await self.run_codes({"crm": [slow, secret]}, "await crm.slow()", "await crm.secret()")
        self.assertIn("slow has no result after 0.01 s", model.read[0])
        self.assertIn("secret is not enabled", model.read[1])

    async def test_tools_that_programs_cannot_call_are_refused(self) -> None:
        @tool_input_guardrail
        def guard(data: Any) -> ToolGuardrailFunctionOutput:
            return ToolGuardrailFunctionOutput.allow()

        refused: list[tuple[Callable[..., Any], str]] = [
            (function_tool(needs_approval=True), "needs approval, for which a program cannot wait"),
            (function_tool(tool_input_guardrails=[guard]), "has guardrails"),
        ]
        for decorate, message in refused:
            tool: FunctionTool = decorate(list_orders)
            with self.assertRaisesRegex(TypeError, f"list_orders {message}"):
                await code_tool(self.box, {"shop": [tool]})
        with self.assertRaisesRegex(TypeError, "WebSearchTool.* is not a tool"):
            await code_tool(self.box, {"shop": [WebSearchTool()]})
        with self.assertRaisesRegex(TypeError, "tools must be a mapping"):
            await code_tool(self.box, [list_orders])  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "the tools of 'shop' must be a list"):
            await code_tool(self.box, {"shop": list_orders})  # type: ignore[dict-item]

    async def test_outputs_of_tools_are_json(self) -> None:
        @function_tool(strict_mode=False)
        def picture(size: int = 1) -> Any:
            return ToolOutputImage(image_url=f"data:{size}")

        @function_tool
        def strict(size: int = 1) -> int:
            return size

        inner = Agent("Inner", model=Scripted(), handoff_description="answers")
        tools = [picture, strict, inner.as_tool("ask", "Asks an agent.")]
        code = "return [await crm.picture(), await crm.ask({ input: 'hello' })]"
        model = await self.run_codes({"crm": tools}, code, "await crm.strict({})")
        self.assertEqual(
            json.loads(model.read[0]),
            [{"type": "image", "image_url": "data:1", "file_id": None, "detail": None}, "done"],
        )
        self.assertIn("validation_error", model.read[1], "a strict schema requires all arguments")
