"""Execbox executes JavaScript and TypeScript that language models write, in sandboxes that call exactly the tools they are granted.

    import asyncio, execbox

    async def list_orders(status: str, limit: int = 50) -> list[dict]:
        \"\"\"Lists orders.\"\"\"
        return [{"id": "A-7", "total": 60}]

    async def main():
        async with execbox.Executor() as box:
            result = await box.run("(await shop.list_orders({ status: 'open' })).length", tools={"shop": [list_orders]})
            print(result.value)

    asyncio.run(main())

`SyncExecutor` does the same without asyncio.
"""

from typing import TYPE_CHECKING, Any

from ._code_tool import CodeTool, SyncCodeTool
from ._executor import Check, Executor, ExecutorOptions, Server, TotalUsage
from ._mcp import mcp_tools
from ._options import (
    Answer,
    CodeOptions,
    CodeToolOptions,
    Control,
    EventType,
    Limits,
    Options,
    Question,
    Rule,
    ScriptOptions,
)
from ._results import CodeResult, LogCall, Result, Usage
from ._sync import SyncExecutor
from ._tools import Call, Effect, Provider, Tool, Tools, tool
from ._values import UNDEFINED, BigInt, ErrorValue, Map, RegExp, Tagged
from ._version import VERSION
from .errors import (
    BinaryNotFound,
    ExecboxError,
    ExecutorClosed,
    Frame,
    InvalidInput,
    Position,
    ProgramError,
    SerializationError,
    ServiceEnded,
    ServiceError,
    ToolError,
)

if TYPE_CHECKING:
    from . import events
    from .events import Event

__version__ = VERSION

__all__ = [
    "UNDEFINED",
    "Answer",
    "BigInt",
    "BinaryNotFound",
    "Call",
    "Check",
    "CodeOptions",
    "CodeResult",
    "CodeTool",
    "CodeToolOptions",
    "Control",
    "Effect",
    "ErrorValue",
    "Event",
    "EventType",
    "ExecboxError",
    "Executor",
    "ExecutorOptions",
    "ExecutorClosed",
    "Frame",
    "InvalidInput",
    "Limits",
    "LogCall",
    "Map",
    "Options",
    "Position",
    "ProgramError",
    "Provider",
    "Question",
    "RegExp",
    "Result",
    "Rule",
    "ScriptOptions",
    "SerializationError",
    "Server",
    "ServiceEnded",
    "ServiceError",
    "SyncCodeTool",
    "SyncExecutor",
    "Tagged",
    "Tool",
    "ToolError",
    "Tools",
    "TotalUsage",
    "Usage",
    "events",
    "mcp_tools",
    "tool",
]


def __getattr__(name: str) -> Any:
    """The module of the events is read by those who use it: that takes as long as a program."""
    if name in ("events", "Event"):
        from importlib import import_module

        module = import_module(".events", __name__)
        return module if name == "events" else module.Event
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
