"""Pydantic AI: a toolset whose tool runs code that calls the tools of another toolset.

agent = Agent(model, toolsets=[code_toolset(box, FunctionToolset([list_orders]), timeout=10)])
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from pydantic_ai import AbstractToolset, RunContext, ToolDefinition, WrapperToolset
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed, UsageLimitExceeded
from pydantic_ai.messages import ToolCallPart, ToolReturn
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import AgentDepsT, ToolDenied
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema, to_jsonable_python

from .._options import check_options, check_tools, repeatable
from .._tools import Call, Tool, Tools, as_provider
from ..errors import ToolError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._code_tool import CodeTool
    from .._executor import Executor
    from .._options import CodeToolOptions

_CODE = SchemaValidator(core_schema.typed_dict_schema({"code": core_schema.typed_dict_field(core_schema.str_schema())}))


def code_toolset(
    box: Executor,
    toolset: AbstractToolset[AgentDepsT],
    /,
    *,
    namespace: str = "tools",
    others: Tools | None = None,
    **options: Unpack[CodeToolOptions],
) -> AbstractToolset[AgentDepsT]:
    """A toolset with one tool, whose code calls the tools of `toolset` as `NAMESPACE.TOOL(input)`.

    Tools that a program cannot call stay tools of the agent: those that are deferred or need approval by their definition, those
    that stand for a tool of the model, and those that are not revealed. `others` are further tools of the program. The options
    are those of `Executor.code_tool`. The agent reads the result as text; a program that failed is a failed call.
    """
    check_options(options, "code_tool")
    check_tools(others)
    if namespace in (others or {}):
        raise TypeError(f"{namespace!r} is the namespace of the toolset; pass another one: namespace=…")
    # They are read again in each step of a run.
    granted = {name: as_provider(name, each) for name, each in (others or {}).items()}
    return _CodeToolset(toolset, box, namespace, granted, repeatable(options))


@dataclass(kw_only=True)
class _RunTool(ToolsetTool[AgentDepsT]):
    """The tool that runs code, with the tools that the code can call."""

    code_tool: CodeTool
    called: dict[str, ToolsetTool[AgentDepsT]]


@dataclass
class _CodeToolset(WrapperToolset[AgentDepsT]):
    box: Executor
    namespace: str
    others: Tools
    options: CodeToolOptions

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        wrapped = await self.wrapped.get_tools(ctx)
        called = {name: tool for name, tool in wrapped.items() if _can_be_called(tool.tool_def, ctx)}
        granted: Tools = self.others
        if called:
            granted = {**granted, self.namespace: [_tool_of(tool.tool_def) for tool in called.values()]}
        code_tool = await self.box.code_tool(granted, **self.options)
        name = code_tool.name
        if name in wrapped.keys() - called.keys():
            raise TypeError(f"the agent has a tool {name!r}; name the one that runs code: name=…")
        run = _RunTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=name, description=code_tool.description, parameters_json_schema=code_tool.input_schema
            ),
            max_retries=1,
            args_validator=_CODE,
            code_tool=code_tool,
            called=called,
        )
        return {name: run, **{name: tool for name, tool in wrapped.items() if name not in called}}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        if not isinstance(tool, _RunTool):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        calls = _Calls(ctx, self.wrapped, tool.called)
        token = _calls.set(calls)
        try:
            result = await tool.code_tool.run(tool_args["code"])
        finally:
            _calls.reset(token)
        if calls.exceeded is not None:
            raise calls.exceeded
        if result.error is not None:
            raise ToolFailed(result.text or "") from result.error
        return result.text


def _can_be_called(definition: ToolDefinition, ctx: RunContext[Any]) -> bool:
    """Whether a program can call a tool as any other."""
    is_ordinary = definition.kind == "function" and definition.tool_kind is None and not definition.unless_native
    return is_ordinary and ctx.is_tool_available(definition)


def _tool_of(definition: ToolDefinition) -> Tool:
    async def invoke(input: Any, call: Call) -> Any:
        return await _calls.get().call(definition.name, {} if input is None else input, call.number)

    return Tool(
        definition.name,
        invoke,
        definition.description,
        definition.parameters_json_schema,
        definition.return_schema,
        lenient=True,
        dump=partial(to_jsonable_python, bytes_mode="base64"),
        context="call",
    )


class _Calls(Generic[AgentDepsT]):
    """The calls of one program: validated, limited and counted as those of the agent, with its hooks."""

    def __init__(
        self,
        ctx: RunContext[AgentDepsT],
        toolset: AbstractToolset[AgentDepsT],
        tools: dict[str, ToolsetTool[AgentDepsT]],
    ) -> None:
        self._ctx = ctx
        root = ctx.tool_manager.root_capability if ctx.tool_manager is not None else None
        self._manager = ToolManager(toolset=toolset, root_capability=root, ctx=ctx, tools=tools)
        self._running = 0
        self.exceeded: UsageLimitExceeded | None = None
        """The limit of the agent that the program has reached."""

    async def call(self, name: str, input: Any, number: int) -> Any:
        part = ToolCallPart(name, input, tool_call_id=f"{self._ctx.tool_call_id}_{number}")
        self._check_limits()
        self._running += 1
        try:
            value = await self._manager.handle_call(part, wrap_validation_errors=False)
        except (ApprovalRequired, CallDeferred):
            raise ToolError(f"{name} waits for an approval or for another system, which a program cannot do") from None
        finally:
            self._running -= 1
        if isinstance(value, ToolDenied):
            raise ToolError(value.message)
        return value.return_value if isinstance(value, ToolReturn) else value

    def _check_limits(self) -> None:
        """Fails if the agent may not make another call, beside those that run and the one that runs the program."""
        limits, usage = self._ctx.usage_limits, self._ctx.usage
        if limits is None:
            return
        try:
            limits.check_before_tool_call(replace(usage, tool_calls=usage.tool_calls + self._running + 2))
        except UsageLimitExceeded as exceeded:
            self.exceeded = exceeded
            raise


_calls: ContextVar[_Calls[Any]] = ContextVar("execbox_pydantic_ai")
"""The calls of the program that runs."""
