"""What the tests share."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import unittest
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PACKAGE / "src"))

import execbox  # noqa: E402

BINARY = os.environ.get("EXECBOX_BIN") or str(PACKAGE.parent.parent / "target" / "debug" / "execbox")
os.environ["EXECBOX_BIN"] = BINARY
logging.getLogger("asyncio").setLevel(logging.ERROR)  # which reports slow steps in tests


class ExecutorTest(unittest.IsolatedAsyncioTestCase):
    """Tests with an executor, which has no task, request or child left at the end."""

    executor = "process"

    async def asyncSetUp(self) -> None:
        # Warnings of this package are errors: what is never awaited, and what is not closed.
        self.box = execbox.Executor(self.executor)
        self.errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.errors.append(context))

    async def asyncTearDown(self) -> None:
        await self.box.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        self.assertEqual(rest, [])
        self.assertEqual(self.errors, [])

    async def value(self, code: str, **options: Any) -> Any:
        """The value of a script, which succeeds."""
        result = await self.box.run(code, **{"timeout": 60, **options})
        return result.raise_for_error().value

    async def check_cancellation(
        self, begin: Callable[[Callable[[], Awaitable[None]]], Coroutine[Any, Any, Any]]
    ) -> None:
        """Cancels work that waits for a function, which `begin` is given. The function and the program end."""
        started, ended = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            """Hangs."""
            started.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        work = asyncio.create_task(begin(hang))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            waiting.cancel()
            self.fail(f"it has not called the function: {work.result()}")
        work.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await work
        await ended.wait()
        await self.ended()

    async def ended(self) -> None:
        """Waits until no program runs."""
        while (await self.box.usage()).running:
            await asyncio.sleep(0.01)


def children() -> list[str]:
    """The command lines of the processes below this one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except (OSError, ValueError, IndexError):
            continue
        if parent == os.getpid() and command:
            found.append(command)
    return found
