"""The executor: the service of an application, its executions and their results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from ._binary import find
from ._code_tool import CodeTool
from ._options import (
    CodeOptions,
    CodeToolOptions,
    ScriptOptions,
    check,
    check_options,
    check_tools,
    code_params,
    code_tool_params,
    repeatable,
    script_params,
    size,
)
from ._plain import write
from ._results import CodeResult, Result, code_result
from ._session import Execution, Session
from ._tools import Tools, as_provider, named_provider
from ._values import decoder, encode
from .errors import ExecutorClosed

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from types import TracebackType

    from typing_extensions import Self, Unpack

MAX_THREADS = 32

Outcome = TypeVar("Outcome", Result, CodeResult)


class Server(NamedTuple):
    """An MCP server in the configuration of the executor."""

    name: str
    namespace: str
    """The name of its provider, for `servers` of an execution."""
    problem: str | None
    """Why it cannot be used."""
    types: str | None
    """The TypeScript declarations of its tools."""
    tools: dict[str, str]
    """The names of its tools, with their names in programs."""


class Check(NamedTuple):
    """A check of `self_test`."""

    check: str
    outcome: str
    """`passed`, `failed` or `skipped`."""
    reason: str | None


class TotalUsage(NamedTuple):
    """What an executor has used since its service was started."""

    running: int
    """The executions that run, or wait for a runner."""
    ended: int
    failed: int
    calls: int
    cpu_ms: float
    bytes_in: int
    bytes_out: int
    providers: int
    """The providers that are added."""
    dropped_events: int


class ExecutorOptions(TypedDict, total=False):
    """The options of an executor."""

    max_programs: int | None
    """How many programs run at once; further ones wait. Default: the number of cores, at most 4; `inline` and `remote`: 64."""
    max_memory: int | str | None
    """The most that `memory` of a program can be. Default: 1 GiB."""
    config: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
    """Files with MCP servers, as MCP clients write them."""
    servers: Mapping[str, str] | None
    """MCP servers: commands or URLs, by their names."""
    engine: str | None
    """`quickjs` (default), or `v8` if the binary has it."""
    arguments: Sequence[str]
    """Further options of `execbox serve`."""
    binary: str | os.PathLike[str] | None
    """The program to start. Default: `$EXECBOX_BIN`, the one in the wheel, or `execbox` on the `PATH`."""
    socket: str | os.PathLike[str] | None
    """The path of the socket of a service that runs already, in place of all the others."""


class Executor:
    """Executes programs in sandboxes, which call the tools that they are granted.

    The first execution starts the service, `execbox serve`; a service that has died fails what ran, and is started again for the
    next execution. `async with` ends it, with everything that runs.

    An executor belongs to one event loop. It takes any number of programs at once: `max_programs` run, and further ones wait. A
    program that waits for its tools keeps its place.
    """

    def __init__(
        self,
        executor: str = "process",
        *,
        max_programs: int | None = None,
        max_memory: int | str | None = None,
        config: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
        servers: Mapping[str, str] | None = None,
        engine: str | None = None,
        arguments: Sequence[str] = (),
        binary: str | os.PathLike[str] | None = None,
        socket: str | os.PathLike[str] | None = None,
    ) -> None:
        """`executor` is where programs run: `process`, `inline`, `worker` or `remote=ADDRESS`. The others are `ExecutorOptions`."""
        self._path = os.fspath(socket) if socket is not None else None
        self._binary = os.fspath(binary) if binary is not None else None
        self._options = ["--executor", executor]
        if max_programs is not None:
            self._options += ["--max-programs", str(max_programs)]
        if max_memory is not None:
            self._options += ["--max-memory", f"{size(max_memory)}B"]
        if engine is not None:
            self._options += ["--engine", engine]
        for file in [config] if isinstance(config, (str, os.PathLike)) else config:
            self._options += ["--config", os.fspath(file)]
        for name, server in (servers or {}).items():
            self._options += ["--server", f"{name}={server}"]
        self._options += arguments
        self._session: Session | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._is_closed = False

    # ---- Executions ----------------------------------------------------------------------------------------------------

    async def run(self, code: str, **options: Unpack[ScriptOptions]) -> Result:
        """Executes a script: code in JavaScript or TypeScript whose last expression, or what it returns, is the result.

        A program that fails is a result with an `error`. The options are those of `ScriptOptions`: `tools`, `timeout` (5 s),
        `memory` (64 MiB), `limits`, `policy` with `approve`, `on_event` and others. If the task is cancelled, so is the program.
        """
        check(code, options, "run")
        return await self._execute(
            "execute",
            options,
            lambda providers, execution, attachments: script_params(code, options, providers),
            lambda json, execution, attachments: Result(json),
        )

    async def run_code(self, source: str, **options: Unpack[CodeOptions]) -> CodeResult:
        """Runs an ES module in JavaScript or TypeScript, with values, functions and promises of the application.

        The result is one of its exports.

        Values keep their types: dates, bytes, sets, maps, integers of any size, cycles. The options are those of `CodeOptions`:
        `function` and `args`, `imports`, `globals`, `modules`, and those of `run`.
        """
        check(source, options, "run_code")
        return await self._execute(
            "run_code",
            options,
            lambda providers, execution, attachments: code_params(
                source, options, providers, partial(encode, handles=execution, attachments=attachments)
            ),
            lambda json, execution, attachments: code_result(json, decoder(execution, attachments)),
        )

    async def _execute(
        self,
        method: str,
        options: ScriptOptions | CodeOptions,
        params: Callable[[list[int], Execution, list[bytes]], dict[str, Any]],
        read: Callable[[Any, Execution, list[bytes]], Outcome],
    ) -> Outcome:
        """Adds the providers, sends the execution, and reads its result."""
        providers = [named_provider(name, tools) for name, tools in (options.get("tools") or {}).items()]
        session = await self._ready()
        async with session.granted(providers) as numbers:
            execution = Execution(session, options, dict(zip(numbers, providers)))
            result = await session.execute(
                method,
                execution,
                lambda attachments: params(numbers, execution, attachments),
                lambda json, attachments: read(json, execution, attachments),
            )
        execution.explain(result.error)
        result.dropped_events += execution.dropped_events
        return result

    # ---- Descriptions --------------------------------------------------------------------------------------------------

    async def types(self, tools: Tools) -> str:
        """The TypeScript declarations of tools, for the prompt of a model."""
        session = await self._ready()
        return await session.types([named_provider(name, each) for name, each in tools.items()])

    async def code_tool(self, tools: Tools, /, **options: Unpack[CodeToolOptions]) -> CodeTool:
        """A tool with which a model runs scripts that call `tools`, for any framework of agents.

        The options are those of `run`, for each script; `max_text_chars` is 24 000 by default.
        """
        check_options(options, "code_tool")
        check_tools(tools)
        options = repeatable(options)
        granted = {name: as_provider(name, each) for name, each in tools.items()}
        session = await self._ready()
        async with session.granted([each._named(name) for name, each in granted.items()]) as numbers:
            params = write(code_tool_params(options, numbers))
            described, _ = await session.service.request("describe_code", params)
        return CodeTool(self, granted, described, options)

    async def servers(self) -> list[Server]:
        """The MCP servers of the executor. Waits until each is ready or has failed."""
        return [
            Server(
                each["name"],
                each["namespace"],
                each.get("problem"),
                each.get("types"),
                {tool["name"]: tool["safeName"] for tool in each["tools"]},
            )
            for each in (await self._request("servers"))["servers"]
        ]

    # ---- The service ---------------------------------------------------------------------------------------------------

    async def prewarm(self, count: int) -> None:
        """Starts runners, so that the first programs need not wait for them."""
        await self._request("prewarm", f'{{"count":{int(count)}}}')

    async def self_test(self) -> list[Check]:
        """Tries what limits and the jail must prevent."""
        checks = (await self._request("self_test"))["checks"]
        return [Check(each["check"], each["outcome"], each.get("reason")) for each in checks]

    async def usage(self) -> TotalUsage:
        """What this executor has used."""
        json = await self._request("usage")
        return TotalUsage(
            json["running"],
            json["ended"],
            json["failed"],
            json["calls"],
            json["cpuMs"],
            json["bytesIn"],
            json["bytesOut"],
            json["providers"],
            json["droppedEvents"],
        )

    async def _request(self, method: str, params: str = "{}") -> Any:
        session = await self._ready()
        result, _ = await session.service.request(method, params)
        return result

    async def _ready(self) -> Session:
        """The connection to the service, which is started if there is none."""
        if self._is_closed:
            raise ExecutorClosed("the executor is closed")
        session = self._session
        if session is not None and not session.service.is_here():
            session.service.abandon()
            session = None
        if session is None or not session.service.is_open:
            command = () if self._path is not None else [self._binary or find(), "serve", *self._options]
            session = self._session = Session(self._thread_pool, command=command, path=self._path)
        if not session.service.ready.done():
            await asyncio.shield(session.service.ready)
        session.service.ready.result()
        return session

    def _thread_pool(self) -> ThreadPoolExecutor:
        """The threads of synchronous tools. They are apart from those of the event loop: a program cannot occupy these."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="execbox")
        return self._threads

    async def close(self) -> None:
        """Ends the service. What runs fails with `ExecutorClosed`."""
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            if session.service.is_here():
                await session.close()
            else:
                session.service.abandon()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
