"""The options of an execution, and their form in messages."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, TypeVar, cast, get_args

from ._tools import Effect, Tools, as_provider

if TYPE_CHECKING:
    from .events import Event

EventType = Literal[
    "accepted",
    "started",
    "log",
    "call_began",
    "call_progress",
    "call_waiting",
    "call_resumed",
    "call_decided",
    "call_ended",
    "reported",
    "ended",
]
EVENT_TYPES: tuple[str, ...] = get_args(EventType)


class Rule(NamedTuple):
    """A rule about the calls of tools. The first that matches decides; calls that match none are allowed."""

    decision: Literal["allow", "deny", "ask"]
    """`ask` calls `approve`. Meanwhile, the clock of the program is paused."""
    tools: str | None = None
    """A pattern for `PROVIDER.TOOL`: `bank.pay`, `*.delete_*`. Default: all."""
    effect: Effect | None = None
    """The effect of the tool. Default: any."""
    reason: str | None = None
    """Why calls are denied, for the program."""


class Question(NamedTuple):
    """Asks whether a call may be made."""

    provider: str
    tool: str
    """The name of the tool in programs."""
    input: Any
    effect: Effect
    call: int
    """The number of the call in its execution."""
    lines: list[str]
    """The first lines of the script that name the tool, each with its number."""


class Answer(NamedTuple):
    """The answer to a question."""

    answer: Literal["approve", "approve_tool", "refuse", "refuse_all"]
    """`approve_tool` also approves all later calls of the tool in this execution; `refuse_all` refuses all later calls that need
    approval."""
    reason: str | None = None
    """Why the call is refused, for the program."""


class Limits(TypedDict, total=False):
    """The limits of an execution that are set. The page on limits has their defaults."""

    timeout_ms: int
    memory_limit_bytes: int
    host_memory_bytes: int
    """The memory that the host may hold for the program: calls, answers, reports."""
    cpu_time_ms: int
    host_wait_ms: int
    """How long the program may wait for its calls."""
    max_calls: int
    max_calls_in_flight: int
    max_bytes_in: int
    """The size of the answers to its calls, together."""
    max_bytes_out: int
    """The size of the inputs of its calls, its reports and its result, together."""
    max_log_lines: int
    max_log_chars: int
    max_source_bytes: int


class Control:
    """Terminates an execution: `control.terminate("enough")`. What it has reported and written is in its result.

    A control is for one execution.
    """

    def __init__(self) -> None:
        self._terminate: Callable[[str | None], None] | None = None
        self._terminated: tuple[str | None] | None = None

    def terminate(self, reason: str | None = None) -> None:
        """Ends the execution: a module with the status `terminated`, a script with the error of a cancellation.

        It can be called at any time in the event loop of the executor.
        """
        self._terminated = self._terminated or (reason,)
        if self._terminate is not None:
            self._terminate(reason)

    def _attach(self, terminate: Callable[[str | None], None] | None) -> None:
        """The execution has begun, or ended."""
        self._terminate = terminate
        if terminate is not None and self._terminated is not None:
            terminate(self._terminated[0])


class Options(TypedDict, total=False):
    """What an execution is granted. Nothing is granted by default."""

    tools: Tools
    """The tools that the program may call, by the names of their providers."""
    servers: Iterable[str]
    """The namespaces of MCP servers of the executor that the program may call."""
    timeout: float | timedelta
    """In seconds. Default: 5 for scripts, 300 for modules."""
    memory: int | str
    """The memory limit: bytes, or a size such as `"64MiB"`. Default: 64 MiB."""
    limits: Limits
    """Further limits."""
    policy: Iterable[Rule]
    """Decides about each call of a tool."""
    approve: Callable[[Question], Awaitable[Answer | bool] | Answer | bool]
    """Answers the questions of the policy. If it raises, the execution is cancelled and raises the same."""
    on_event: Callable[[Event], Awaitable[None] | None]
    """Called with each event, one after another. If it raises, the execution is cancelled and raises the same."""
    events: Iterable[EventType]
    """The types of the events. Default: all."""
    control: Control
    """Terminates the execution."""


class ScriptOptions(Options, total=False):
    """The options of `run`."""

    functions: Mapping[str, Mapping[str, str]]
    """Functions in JavaScript that the script may call as `NAMESPACE.NAME(input)`: `{"lib": {"twice": "2 * input"}}`."""
    wait_for_calls: bool
    """Whether a script that has returned ends only when the calls that it did not await are answered. Default: true."""
    common_globals: bool
    """Whether the script has `Intl`, `TextEncoder`, `TextDecoder`, `atob`, `btoa` and `self`. Default: true."""
    timers: bool
    """Whether the script has timers, such as `setTimeout`. Default: false."""
    max_text_chars: int
    """The length of `text` in the result, in characters. Default: there is no `text`."""


class CodeToolOptions(ScriptOptions, total=False):
    """The options of `code_tool`: those of `run`, for each script, and how models see the tool."""

    name: str
    """The name of the tool. Default: `run_code`."""
    max_type_chars: int
    """The length of the types in the description, in characters: if all do not fit, names and parameters are shown, or else as
    many names as fit. Default: 20 000."""


class CodeOptions(Options, total=False):
    """The options of `run_code`."""

    function: str
    """The export to execute: a function is called, another value is the result. Default: `default`."""
    args: Sequence[Any]
    """The arguments of the function."""
    imports: Mapping[str, Mapping[str, Any]]
    """Modules of values and functions, by the names with which they are imported."""
    modules: Mapping[str, str]
    """Modules of source text, by their paths: `{"./stats.ts": "export …"}`."""
    globals: Mapping[str, Any]
    """Constants that every module sees."""
    language: Literal["typescript", "javascript"]
    """Default: `typescript`."""
    filename: str
    """The name of the module, in errors and for its imports."""
    report: bool
    """Whether the module has the function `report`, whose values are in the result. Default: false."""


_SIZE = r"(?i)\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*"
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SCRIPT = {
    "wait_for_calls": "waitForCalls",
    "common_globals": "commonGlobals",
    "timers": "timers",
    "max_text_chars": "maxTextChars",
}
_SCRIPT_OPTIONS = frozenset(ScriptOptions.__annotations__) | frozenset(Options.__annotations__)
_CODE_OPTIONS = frozenset(CodeOptions.__annotations__) | frozenset(Options.__annotations__)
_TOOL_OPTIONS = (_SCRIPT_OPTIONS | frozenset(CodeToolOptions.__annotations__)) - {"tools", "control"}
_OPTIONS = {
    "run": _SCRIPT_OPTIONS,
    "run_code": _CODE_OPTIONS,
    "code_tool": _TOOL_OPTIONS,
    "SandboxProvider": frozenset(Options.__annotations__) - {"control"},
}


def size(value: int | str) -> int:
    """A size in bytes: a number, or a text such as `64MiB`, `1.5GB` or `512k`."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"invalid size {value!r}: expected bytes, or a text such as '64MiB'")
    if isinstance(value, int):
        return value
    match = re.fullmatch(_SIZE, value)
    if match is None:
        raise ValueError(f"invalid size {value!r}: expected a number and a unit, such as '64MiB' or '1GB'")
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


def milliseconds(timeout: float | timedelta) -> int:
    """A timeout in milliseconds, at least one."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"invalid timeout {timeout!r}: expected seconds, or a timedelta")
    if not 0 <= seconds < 1e9:
        raise ValueError(f"invalid timeout {timeout!r}: expected seconds, at least 0")
    return max(1, round(1000 * seconds))


def check(source: str, options: Mapping[str, Any], of: Literal["run", "run_code"]) -> None:
    """Fails with `TypeError` if there is no such option, or the source is no text."""
    if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{of}() takes a program as a str, not {type(source).__name__}")
    check_options(options, of)


def check_options(options: Mapping[str, Any], of: str) -> None:
    """Fails with `TypeError` if `of` has no such option."""
    known = _OPTIONS[of]
    for name in options:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(sorted(known))}"
            raise TypeError(f"{of}() has no option {name!r}{hint}")
    check_tools(options.get("tools"))
    if isinstance(options.get("servers"), str):
        raise TypeError("servers must be a list of namespaces, not str")


def check_tools(tools: Any) -> None:
    if tools is not None and not isinstance(tools, Mapping):
        raise TypeError(f'tools must be a mapping such as {{"shop": [list_orders]}}, not {type(tools).__name__}')


def grants(options: Mapping[str, Any], providers: Sequence[int], of: Literal["run", "run_code"]) -> dict[str, Any]:
    """The parameters that both contracts have."""
    limits = {_camel(name): value for name, value in (options.get("limits") or {}).items()}
    if options.get("timeout") is not None:
        limits["timeoutMs"] = milliseconds(options["timeout"])
    if options.get("memory") is not None:
        limits["memoryLimitBytes"] = size(options["memory"])
    params: dict[str, Any] = {}
    if providers or options.get("servers"):
        params["providers"] = [*providers, *options.get("servers", ())]
    if limits:
        params["limits"] = limits
    if options.get("policy") is not None:
        params["policy"] = {"rules": _rules(options, of)}
    if options.get("on_event") is not None:
        params["events"] = list(options.get("events", EVENT_TYPES))
    return params


def _rules(options: Mapping[str, Any], of: str) -> list[dict[str, Any]]:
    """The rules of the policy. They are read once, as they can be an iterator."""
    rules = list(options["policy"])
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"a rule of the policy must be a Rule, not {type(rule).__name__}")
    if options.get("approve") is None and any(rule.decision == "ask" for rule in rules):
        raise TypeError(f"a rule of the policy asks, and {of}() has no approve to answer")
    return [_without_none(rule._asdict()) for rule in rules]


def script_params(code: str, options: Mapping[str, Any], providers: Sequence[int]) -> dict[str, Any]:
    """The parameters of `execute`."""
    options = _without_none(options)
    params = {"code": code, **grants(options, providers, "run")}
    for name, key in _SCRIPT.items():
        if name in options:
            params[key] = options[name]
    if options.get("functions"):
        params["functions"] = [
            {"namespace": namespace, "name": name, "code": code}
            for namespace, functions in options["functions"].items()
            for name, code in functions.items()
        ]
    return params


Given = TypeVar("Given", bound=Options)


def repeatable(options: Given) -> Given:
    """Options that can be read for several executions, also if some were iterators."""
    given = dict(cast(Mapping[str, Any], options))
    for name in ("servers", "policy", "events"):
        if given.get(name) is not None:
            given[name] = list(given[name])
    if given.get("tools") is not None:
        given["tools"] = {name: as_provider(name, each) for name, each in given["tools"].items()}
    return cast(Given, given)


def code_tool_params(options: Mapping[str, Any], providers: Sequence[int]) -> dict[str, Any]:
    """The parameters of `describe_code`."""
    params = {"timers": options.get("timers"), "maxTypeChars": options.get("max_type_chars")}
    return {"providers": [*providers, *options.get("servers", ())], **_without_none(params)}


def code_params(
    source: str, options: Mapping[str, Any], providers: Sequence[int], encode: Callable[[Any], Any]
) -> dict[str, Any]:
    """The parameters of `run_code`. `encode` writes values as tagged JSON."""
    options = _without_none(options)
    execute: dict[str, Any] = {}
    if "function" in options:
        execute["fn"] = options["function"]
    if "args" in options:
        execute["args"] = [encode(value) for value in options["args"]]
    given: dict[str, Any] = {"execute": execute} if execute else {}
    if "imports" in options:
        given["imports"] = {name: _values(members, encode) for name, members in options["imports"].items()}
    if "globals" in options:
        given["globals"] = _values(options["globals"], encode)
    for name in ("modules", "language", "filename"):
        if name in options:
            given[name] = options[name]
    return {
        "source": source,
        "options": given,
        "report": options.get("report", False),
        **grants(options, providers, "run_code"),
    }


def answer(value: Answer | bool) -> str:
    """The result of `approve`, as JSON."""
    if isinstance(value, bool):
        value = Answer("approve" if value else "refuse")
    if not isinstance(value, Answer):
        raise TypeError(f"approve must return an Answer or a bool, not {type(value).__name__}")
    return json.dumps(_without_none(value._asdict()))


def _values(members: Mapping[str, Any], encode: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: encode(value) for name, value in members.items()}


def _without_none(members: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
