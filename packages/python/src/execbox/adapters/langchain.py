"""LangChain: a tool with which an agent runs code that calls tools.

agent = create_agent(model, tools=[await code_tool(box, {"shop": [list_orders]}, timeout=10)])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_function

from .._tools import Tool
from ..errors import InvalidInput, ToolError
from ._granted import Granted, code_of, granted

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._code_tool import CodeTool, SyncCodeTool
    from .._executor import Executor
    from .._options import CodeToolOptions
    from .._results import Result
    from .._sync import SyncExecutor


async def code_tool(box: Executor, tools: Granted, /, **options: Unpack[CodeToolOptions]) -> BaseTool:
    """A tool whose code can call `tools`: functions, tools of this package and tools of LangChain. It is called with `ainvoke`.

    The options are those of `Executor.code_tool`. The agent reads the result as text; a program that failed is a message with
    the status `error`.
    """
    tool = await box.code_tool(granted(tools, BaseTool, tool_of), **options)

    async def run(**input: Any) -> str:
        return _text(await tool.run(_code(tool.name, input)))

    return _structured(tool, coroutine=run)


def sync_code_tool(box: SyncExecutor, tools: Granted, /, **options: Unpack[CodeToolOptions]) -> BaseTool:
    """The same tool for agents without asyncio. It is called with `invoke` or `ainvoke`."""
    tool = box.code_tool(granted(tools, BaseTool, tool_of), **options)

    def run(**input: Any) -> str:
        return _text(tool.run(_code(tool.name, input)))

    return _structured(tool, func=run)


def tool_of(tool: BaseTool) -> Tool:
    """The tool of a tool of LangChain. Its failures are errors of the program, not texts for the agent."""
    input_schema = convert_to_openai_function(tool)["parameters"]
    fields: dict[str, Any] = getattr(tool.args_schema, "model_fields", {})
    for name, field in fields.items():
        if field.is_required() and (field.alias or name) not in input_schema.get("properties", {}):
            raise TypeError(f"{tool.name} needs {name!r}, which is injected by the agent; a program cannot call it")
    failing = tool.model_copy(update={"handle_tool_error": False, "handle_validation_error": False})

    async def invoke(input: Any) -> Any:
        value = await failing.ainvoke({} if input is None else input)
        if type(value).__module__ == "langgraph.types":
            raise ToolError(f"{tool.name} has returned a {type(value).__name__}, which only an agent can follow")
        return value

    return Tool(tool.name, invoke, tool.description, input_schema, lenient=True)


def _structured(tool: CodeTool | SyncCodeTool, **functions: Any) -> BaseTool:
    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.input_schema,
        handle_tool_error=True,
        **functions,
    )


def _code(name: str, input: dict[str, Any]) -> str:
    """The code in the input, which LangChain does not check."""
    try:
        return code_of(name, input)
    except InvalidInput as error:
        raise ToolException(str(error)) from None


def _text(result: Result) -> str:
    """What the agent reads. Fails with `ToolException` if the program has failed."""
    text = result.text or ""
    if result.error is not None:
        raise ToolException(text) from result.error
    return text
