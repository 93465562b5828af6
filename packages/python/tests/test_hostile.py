"""Hostile programs, and what they cost the application: memory of its process, and time after their timeout."""

import asyncio
import gc
import os
import time
from pathlib import Path
from typing import Any

from support import ExecutorTest

import execbox

MIB = 1 << 20
BOUND = 160 * MIB

# What each program does; the text of the program; whether it is a module.
PROGRAMS = [
    ("calls without an end", "for (;;) t.echo(1)", False),
    ("calls that are never answered", "for (;;) t.hang(1)", False),
    ("calls of synchronous tools", "for (;;) t.slow(1)", False),
    ("large inputs", "for (;;) t.echo('x'.repeat(1e6))", False),
    ("large inputs that wait", "await Promise.all(Array.from({ length: 256 }, () => t.hang('x'.repeat(1e6))))", False),
    ("deep inputs", "let a = []; for (let i = 0; i < 98; i++) a = [a]; for (;;) await t.echo(a)", False),
    ("a long log", "for (;;) console.log('x'.repeat(1e5))", False),
    ("a result that JSON makes six times as long", "'\\u0001'.repeat(2e6)", False),
    ("a result that nests deeply", "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; export default a", True),
    ("a result that is shared often", "let a = ['x']; for (let i = 0; i < 60; i++) a = [a, a]; export default a", True),
    (
        "integers with the same hash",
        "export default new Set(Array.from({ length: 2e4 }, (_, i) => BigInt(i) * (2n ** 61n - 1n)))",
        True,
    ),
    ("an array that is nearly empty", "const a = []; a[4e9] = 1; export default a", True),
    (
        "many arrays with holes",
        "export default Array.from({ length: 5e3 }, () => { const a = []; a.length = 1e4; return a })",
        True,
    ),
    (
        "reports with holes",
        "for (let i = 0; i < 4e3; i++) { const a = []; a.length = 1e4; report(a) } export default 1",
        True,
    ),
    (
        "many views of one buffer",
        "const b = new ArrayBuffer(1e6); export default Array.from({ length: 3e3 }, () => new Int16Array(b))",
        True,
    ),
    ("reports without an end", "for (;;) report('x'.repeat(1e4))", True),
    (
        "arguments of functions",
        "const b = new ArrayBuffer(1e6); for (;;) await give(Array.from({ length: 99 }, () => new Int8Array(b)))",
        True,
    ),
]


async def echo(value: Any = None) -> Any:
    return value


async def hang(value: Any = None) -> None:
    await asyncio.sleep(3600)


def slow(value: Any = None) -> int:
    time.sleep(0.01)
    return 1


async def give(value: Any = None) -> None: ...


def memory() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Hostile(ExecutorTest):
    async def test_hostile_programs_cost_the_application_little(self) -> None:
        tools = {"t": [execbox.Tool(tool.__name__, tool) for tool in (echo, hang, slow)]}
        await self.value("1", tools=tools)
        for what, code, is_module in PROGRAMS:
            gc.collect()
            before = peak = memory()

            async def watch() -> None:
                nonlocal peak
                while True:
                    peak = max(peak, memory())
                    await asyncio.sleep(0.005)

            watching = asyncio.create_task(watch())
            with self.subTest(what):
                result: Any
                if is_module:
                    result = await self.box.run_code(code, timeout=0.3, report=True, globals={"give": give})
                else:
                    result = await self.box.run(code, timeout=0.3, tools=tools)
                peak = max(peak, memory())  # with the result
                del result
                self.assertLess(peak - before, BOUND)
            watching.cancel()
        await self.ended()
        self.assertEqual(await self.value("1 + 1"), 2)
