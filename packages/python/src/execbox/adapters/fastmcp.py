"""FastMCP: code mode in which models write JavaScript or TypeScript, which Execbox runs.

server = FastMCP("Shop", transforms=[CodeMode(sandbox_provider=SandboxProvider(box, timeout=10))])
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from fastmcp.exceptions import ToolError
from fastmcp.experimental.transforms.code_mode import CodeMode as _CodeMode
from fastmcp.server.transforms import GetToolNext
from fastmcp.tools.base import Tool as McpTool
from fastmcp.utilities.versions import VersionSpec

from .._options import check_options, repeatable
from .._plain import pieces
from .._results import CodeResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._executor import Executor
    from .._options import Options

_DESCRIPTION = """\
Runs code that calls tools. Write the body of an async function in JavaScript or TypeScript: chain `await call_tool(name, params)` \
calls, compute, and `return` the final answer as a JSON value. A failed call throws an error. Run independent calls with \
`Promise.all`. Only `call_tool(name: string, params: object): Promise<any>` is available in scope."""

# The code begins on the first line, so that its errors have the right lines. It sees no names of ours. The sandbox writes the
# result: there, its size is limited, however often it repeats a part.
_HEAD = "export default async () => JSON.stringify(await (async () => {"
_TAIL = """
})(), (_, value) => {
  if (value instanceof Set || value instanceof Map || ArrayBuffer.isView(value)) return [...value];
  return typeof value === "bigint" ? String(value) : value;
});
"""

_MAX_RESULT_CHARS = 1_000_000
_MAX_FAILURE_CHARS = 24_000
_MAX_LOG_CHARS = 1_000


class SandboxProvider:
    """The sandbox of FastMCP's `CodeMode`, in which code is the body of an async function in JavaScript or TypeScript."""

    def __init__(self, box: Executor, **options: Unpack[Options]) -> None:
        """The options are those of `Executor.run_code`; the timeout is 30 s by default."""
        check_options(options, "SandboxProvider")
        self._box = box
        self._options = cast("Options", {"timeout": 30, **repeatable(options)})

    async def run(
        self,
        code: str,
        *,
        inputs: dict[str, Any] | None = None,
        external_functions: dict[str, Callable[..., Any]] | None = None,
    ) -> Any:
        """Runs code that sees `inputs` as constants and `external_functions` as asynchronous functions, by their names.

        The result is JSON, of at most 1 000 000 characters. Fails with `ToolError` if the code fails.
        """
        functions = {name: _awaited(function) for name, function in (external_functions or {}).items()}
        result = await self._box.run_code(
            f"{_HEAD}{code}{_TAIL}", globals={**(inputs or {}), **functions}, **self._options
        )
        if result.error is not None:
            raise ToolError(_failure(result)) from result.error
        return _read(result.value)


class CodeMode(_CodeMode):
    """FastMCP's `CodeMode`, whose descriptions say that code is JavaScript or TypeScript."""

    async def transform_tools(self, tools: Sequence[McpTool]) -> Sequence[McpTool]:
        return [self._described(tool) for tool in await super().transform_tools(tools)]

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> McpTool | None:
        tool = await super().get_tool(name, call_next, version=version)
        return tool and self._described(tool)

    def _described(self, tool: McpTool) -> McpTool:
        if tool.name != self.execute_tool_name:
            return tool
        code = {"type": "string", "description": "JavaScript or TypeScript"}
        parameters = {**tool.parameters, "properties": {**tool.parameters["properties"], "code": code}}
        description = self.execute_description or _DESCRIPTION
        return tool.model_copy(update={"description": description, "parameters": parameters})


def _awaited(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any) -> Any:
        value = function(*arguments)
        return await value if inspect.isawaitable(value) else value

    return call


def _read(text: Any) -> Any:
    """The result, which the program can have made itself in another way than intended."""
    if text is None:
        return None
    if isinstance(text, str) and len(text) > _MAX_RESULT_CHARS:
        raise ToolError(f"the result has {len(text)} characters: return less")
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the result cannot be read: {error}") from None


def _failure(result: CodeResult) -> str:
    """The error, with its line, and the log."""
    assert result.error is not None
    error = result.error
    text = f"{error.name}: {error.message}" if error.name else error.message
    if error.position is not None:
        text += f" (line {error.position.line})"
    if result.logs:
        text += "\n\nLogs:"
    for log in result.logs:
        if len(text) > _MAX_FAILURE_CHARS:
            break
        text += "\n" + " ".join([_shown(each) for each in log.args[:_MAX_LOG_CHARS]])
    return _cut(text, _MAX_FAILURE_CHARS)


def _shown(value: Any) -> str:
    """A value of the log. It is written piece by piece, as a few bytes can stand for a value that repeats a part very often."""
    if isinstance(value, str):
        return _cut(value, _MAX_LOG_CHARS)
    text = ""
    try:
        for piece in pieces(value):
            text += piece
            if len(text) > _MAX_LOG_CHARS:
                break
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"
    return _cut(text, _MAX_LOG_CHARS)


def _cut(text: str, max: int) -> str:
    return text if len(text) <= max else f"{text[:max]}…"
