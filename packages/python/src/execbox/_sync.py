"""The executor for code without asyncio: the same methods, which wait for their results."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ._code_tool import SyncCodeTool
from ._executor import Check, Executor, ExecutorOptions, Server, TotalUsage
from ._options import CodeOptions, CodeToolOptions, ScriptOptions
from ._results import CodeResult, Result
from ._tools import Tools
from .errors import ExecutorClosed

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

Value = TypeVar("Value")


class SyncExecutor:
    """An `Executor` with its event loop in a thread. Any thread can use it; each call waits until its result is there.

    The arguments are those of `Executor`. Asynchronous tools and callbacks run in the event loop, synchronous tools in threads. An
    interrupt (Ctrl-C) cancels the program.
    """

    def __init__(self, executor: str = "process", **options: Unpack[ExecutorOptions]) -> None:
        self._executor = Executor(executor, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def run(self, code: str, **options: Unpack[ScriptOptions]) -> Result:
        """Executes a script: see `Executor.run`."""
        return self._wait(self._executor.run(code, **options))

    def run_code(self, source: str, **options: Unpack[CodeOptions]) -> CodeResult:
        """Runs an ES module: see `Executor.run_code`."""
        return self._wait(self._executor.run_code(source, **options))

    def types(self, tools: Tools) -> str:
        """The TypeScript declarations of tools: see `Executor.types`."""
        return self._wait(self._executor.types(tools))

    def code_tool(self, tools: Tools, /, **options: Unpack[CodeToolOptions]) -> SyncCodeTool:
        """A tool with which a model runs scripts: see `Executor.code_tool`."""
        return SyncCodeTool(self, self._wait(self._executor.code_tool(tools, **options)))

    def servers(self) -> list[Server]:
        """The MCP servers: see `Executor.servers`."""
        return self._wait(self._executor.servers())

    def prewarm(self, count: int) -> None:
        """Starts runners: see `Executor.prewarm`."""
        self._wait(self._executor.prewarm(count))

    def self_test(self) -> list[Check]:
        """Tries what must be prevented: see `Executor.self_test`."""
        return self._wait(self._executor.self_test())

    def usage(self) -> TotalUsage:
        """What the executor has used: see `Executor.usage`."""
        return self._wait(self._executor.usage())

    def _wait(self, work: Coroutine[Any, Any, Value]) -> Value:
        with self._lock:
            if self._is_closed:
                work.close()
                raise ExecutorClosed("the executor is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="execbox", daemon=True)
                self._thread.start()
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("an asynchronous tool or callback cannot wait for its own executor; make it synchronous")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ExecutorClosed("the executor was closed") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Ends the service. What runs in other threads fails with `ExecutorClosed`."""
        with self._lock:
            self._is_closed = True
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._executor.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not None:
                self._thread.join()

    def __enter__(self) -> Self:
        self._wait(self._executor._ready())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """The thread of an executor."""
    try:
        loop.run_forever()
    finally:
        loop.close()
