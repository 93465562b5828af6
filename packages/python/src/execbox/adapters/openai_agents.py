"""OpenAI Agents SDK: a function tool with which an agent runs code that calls tools.

agent = Agent(name="Shop", tools=[await code_tool(box, {"shop": [list_orders]}, timeout=10)])
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agents import FunctionTool
from agents.tool import set_function_tool_failure_error_function
from agents.tool_context import ToolContext

from .._tools import Call, Tool
from ..errors import InvalidInput, ToolError
from ._granted import Granted, code_of, granted

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._executor import Executor
    from .._options import CodeToolOptions

_outer: ContextVar[ToolContext[Any]] = ContextVar("execbox_openai_agents")
"""The call of the agent that runs the program."""


async def code_tool(box: Executor, tools: Granted, /, **options: Unpack[CodeToolOptions]) -> FunctionTool:
    """A function tool whose code can call `tools`: functions, tools of this package and function tools of the SDK.

    The options are those of `Executor.code_tool`. The agent reads the result as text, also if the program failed. Fails with
    `TypeError` if a function tool cannot be called by programs.
    """
    tool = await box.code_tool(granted(tools, FunctionTool, tool_of), **options)

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        try:
            code = code_of(tool.name, _json(arguments))
        except InvalidInput as error:
            return str(error)
        token = _outer.set(context)
        try:
            return (await tool.run(code)).text or ""
        finally:
            _outer.reset(token)

    return FunctionTool(tool.name, tool.description, tool.input_schema, invoke)


def tool_of(function_tool: FunctionTool) -> Tool:
    """The tool of a function tool. Its failures are errors of the program, not texts for the agent."""
    name = function_tool.name
    if function_tool.needs_approval is not False:
        raise TypeError(f"{name} needs approval, for which a program cannot wait; use `policy` with `approve` instead")
    if function_tool.tool_input_guardrails or function_tool.tool_output_guardrails:
        raise TypeError(f"{name} has guardrails, which are for calls of the agent; check in the function instead")
    failing = set_function_tool_failure_error_function(dataclasses.replace(function_tool), None)

    async def invoke(input: Any, call: Call) -> Any:
        outer = _outer.get()
        await _check_enabled(function_tool, outer)
        arguments = json.dumps({} if input is None else input)
        context: ToolContext[Any] = ToolContext(
            outer.context,
            usage=outer.usage,
            tool_name=name,
            tool_call_id=f"{outer.tool_call_id}_{call.number}",
            tool_arguments=arguments,
            agent=outer.agent,
            run_config=outer.run_config,
        )
        try:
            return await asyncio.wait_for(failing.on_invoke_tool(context, arguments), function_tool.timeout_seconds)
        except asyncio.TimeoutError:
            raise ToolError(f"{name} has no result after {function_tool.timeout_seconds:g} s") from None

    return Tool(
        name,
        invoke,
        function_tool.description,
        function_tool.params_json_schema,
        function_tool.output_json_schema,
        lenient=True,
        context="call",
    )


def _json(text: str) -> Any:
    """What the model has passed; `None` if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


async def _check_enabled(tool: FunctionTool, context: ToolContext[Any]) -> None:
    enabled: Any = tool.is_enabled
    if callable(enabled):
        enabled = enabled(context, context.agent)
        enabled = await enabled if inspect.isawaitable(enabled) else enabled
    if not enabled:
        raise ToolError(f"{tool.name} is not enabled")
