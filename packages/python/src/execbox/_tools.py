"""Tools: functions of the application that programs may call, and providers, which are tools under one name."""

from __future__ import annotations

import inspect
import json
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, overload

from ._values import is_async
from .errors import InvalidInput

Effect = Literal["read_only", "unstated", "additive", "destructive"]
"""What calls of a tool do, as its author states it. Policies can decide by it."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Call:
    """The call of a tool. A parameter with this annotation gets it, and is no part of the input."""

    def __init__(
        self, provider: str, tool: str, number: int, report: Callable[[float, float | None, str | None], None]
    ) -> None:
        self.provider = provider
        """The name of the provider."""
        self.tool = tool
        """The name of the tool."""
        self.number = number
        """The number of the call in its execution, as in events."""
        self._report = report

    def report_progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Reports how far the call has come, to those who observe the execution. `total` has the unit of `done`."""
        self._report(done, total, message)


class Tool:
    """A tool with JSON Schemas of its input and its result. `Tool.of` makes one from a function with type hints.

    The function is called with the input. It can be asynchronous; a synchronous one is called in a thread. Its result is anything
    that can be JSON.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        effect: Effect = "unstated",
        *,
        lenient: bool = False,
        bind: Callable[[Any], tuple[list[Any], dict[str, Any]]] | None = None,
        dump: Callable[[Any], Any] | None = None,
        context: str | None = None,
    ) -> None:
        """`name` is the name, from which the name in programs is derived; `description` is for models. `input_schema` is checked
        before each call and `output_schema` after it.

        `lenient` leaves out parts of the schemas that cannot be checked, with a warning: for schemas from elsewhere. `bind` gives
        the arguments for an input, which is the only one by default, or fails with `ValueError`; `dump` gives what is JSON for a
        result. `context` is the parameter that gets the `Call`.
        """
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"{name} is a generator; a tool returns one value, such as a list")
        self.name = name
        self.function = function
        self.is_async: bool = is_async(function)
        self.effect: Effect = effect
        self.lenient = lenient
        self.dump = dump
        self._bind = bind
        self._context = context
        spec = {
            "name": name,
            "description": description,
            "inputSchema": input_schema,
            "outputSchema": output_schema,
            "effect": effect,
        }
        self.spec: str = json.dumps({key: value for key, value in spec.items() if value is not None})
        """What the service learns of the tool, as JSON."""

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect = "unstated",
    ) -> Tool:
        """A tool from a function, with the schemas of its type hints and the description of its docstring.

        A program passes an object with the arguments.
        """
        from ._hints import signature  # which most programs without tools do not need

        name = name or getattr(function, "__name__", None)
        if name is None or name == "<lambda>":
            raise TypeError(f"{function!r} has no name; pass one: Tool.of(function, name=…)")
        read = signature(function, Call)
        return cls(
            name,
            function,
            description or read.description or None,
            read.input_schema,
            read.output_schema,
            effect,
            bind=read.bind,
            dump=read.dump,
            context=read.context,
        )

    def _arguments(self, input: Any, call: Callable[[], Call]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, which `call` describes."""
        if self._bind is None:
            arguments: tuple[list[Any], dict[str, Any]] = [input], {}
        else:
            try:
                arguments = self._bind(input)
            except ValueError as error:
                raise InvalidInput(str(error)) from None
        positional, named = arguments
        if self._context is not None:
            named = {**named, self._context: call()}
        return positional, named


class _Options(NamedTuple):
    name: str | None = None
    description: str | None = None
    effect: Effect = "unstated"


_OPTIONS = "__execbox_tool__"


@overload
def tool(function: Function, /) -> Function: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, effect: Effect = "unstated"
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "unstated",
) -> Function | Callable[[Function], Function]:
    """Decorates a function with what its hints and its docstring do not say, and returns the function."""

    def decorate(function: Function) -> Function:
        setattr(function, _OPTIONS, _Options(name, description, effect))
        return function

    return decorate(function) if function is not None else decorate


class Provider:
    """Tools, with what else the service learns of their provider."""

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]],
        description: str | None = None,
        *,
        name_failed_calls: bool = False,
    ) -> None:
        """`description` is for models. With `name_failed_calls`, the message of a failed call begins with the call:
        `shop.get_order failed: …`."""
        self.tools: tuple[Tool, ...] = tuple(_tool(each) for each in tools)
        self._description = description
        self._name_failed_calls = name_failed_calls
        self._by_name: dict[str, NamedProvider] = {}

    def _named(self, name: str) -> NamedProvider:
        """The provider under a name."""
        known = self._by_name.get(name)
        if known is None:
            members = {
                "name": name,
                "description": self._description,
                "lenient": any(each.lenient for each in self.tools) or None,
                "nameFailedCalls": self._name_failed_calls or None,
            }
            head = json.dumps({key: value for key, value in members.items() if value is not None})
            spec = f'{head[:-1]}, "tools": [{", ".join(each.spec for each in self.tools)}]}}'
            known = self._by_name[name] = NamedProvider(name, {each.name: each for each in self.tools}, spec)
        return known


class NamedProvider(NamedTuple):
    """A provider as an execution has it."""

    name: str
    tools: dict[str, Tool]
    spec: str
    """The parameters of `add_provider`, as JSON. Providers with the same are added once."""


Tools = Mapping[str, Provider | Iterable[Tool | Callable[..., Any]]]
"""The tools of an execution, by the names of their providers: `{"shop": [list_orders]}`."""


def named_provider(name: str, provider: Provider | Iterable[Tool | Callable[..., Any]]) -> NamedProvider:
    """Reads the tools of a provider. Fails with `TypeError` if one is none."""
    return as_provider(name, provider)._named(name)


def as_provider(name: str, provider: Provider | Iterable[Tool | Callable[..., Any]]) -> Provider:
    """A provider that can be granted again and again. Fails with `TypeError` if a tool is none."""
    if isinstance(provider, Provider):
        return provider
    if isinstance(provider, (str, Mapping)) or not hasattr(provider, "__iter__"):
        raise TypeError(
            f"the tools of {name!r} must be a list of functions and tools, or a Provider, not {type(provider).__name__}"
        )
    return Provider(provider)


# A tool refers to its function: only functions that stay, as members of their module, are keys.
_tools: weakref.WeakKeyDictionary[Callable[..., Any], Tool] = weakref.WeakKeyDictionary()


def _tool(each: Tool | Callable[..., Any]) -> Tool:
    """The tool of a function. The hints of a function of a module are read once."""
    if isinstance(each, Tool):
        return each
    if not callable(each) or isinstance(each, type):
        raise TypeError(f"{each!r} is not a tool: expected a function or a Tool")
    module = sys.modules.get(getattr(each, "__module__", None) or "")
    stays = inspect.isfunction(each) and getattr(module, each.__name__, None) is each
    known = _tools.get(each) if stays else None
    if known is None:
        options: _Options = getattr(each, _OPTIONS, None) or _Options()
        known = Tool.of(each, name=options.name, description=options.description, effect=options.effect)
        if stays:
            _tools[each] = known
    return known
