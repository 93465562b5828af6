"""What the tests share."""

from __future__ import annotations

import asyncio
import os
import sys
import unittest
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PACKAGE / "src"))

import execbox  # noqa: E402

BINARY = os.environ.get("EXECBOX_BIN") or str(PACKAGE.parent.parent / "target" / "debug" / "execbox")
os.environ["EXECBOX_BIN"] = BINARY


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
