"""A tool with which a model runs scripts: what agents of any framework are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ._options import CodeToolOptions, ScriptOptions
from ._results import Result
from ._tools import Tools

if TYPE_CHECKING:
    from ._executor import Executor
    from ._sync import SyncExecutor

_MAX_TEXT_CHARS = 24_000


class _Described:
    """What a model learns of the tool."""

    name: str
    """The name."""
    description: str
    """How code is written, and the types of the tools that it can call."""
    input_schema: dict[str, Any]
    """The JSON Schema of the input: an object with the member `code`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class CodeTool(_Described):
    """A tool with which a model runs scripts that call tools. `Executor.code_tool` makes it."""

    def __init__(
        self, executor: Executor, tools: Tools, described: Mapping[str, Any], options: CodeToolOptions
    ) -> None:
        self.name = options.get("name") or "run_code"
        self.description = described["description"]
        self.input_schema = described["inputSchema"]
        self._executor = executor
        own = ("name", "max_type_chars")
        of_scripts = {key: value for key, value in options.items() if key not in own and value is not None}
        self._options = cast(ScriptOptions, {"max_text_chars": _MAX_TEXT_CHARS, **of_scripts, "tools": tools})

    async def run(self, code: str) -> Result:
        """Executes a script of the model. `text` of the result is what the model reads, also if the script failed."""
        return await self._executor.run(code, **self._options)


class SyncCodeTool(_Described):
    """A `CodeTool` for code without asyncio. `SyncExecutor.code_tool` makes it."""

    def __init__(self, executor: SyncExecutor, tool: CodeTool) -> None:
        self.name, self.description, self.input_schema = tool.name, tool.description, tool.input_schema
        self._executor = executor
        self._options = tool._options

    def run(self, code: str) -> Result:
        """Executes a script of the model: see `CodeTool.run`."""
        return self._executor.run(code, **self._options)
