"""`SyncExecutor`: the same without asyncio."""

import asyncio
import threading
import time
import unittest
from typing import Any

from support import children

import execbox


class Sync(unittest.TestCase):
    def setUp(self) -> None:
        self.box = execbox.SyncExecutor("inline")
        self.addCleanup(self.box.close)

    def test_everything_waits_for_its_result(self) -> None:
        async def later(n: int) -> int:
            await asyncio.sleep(0)
            return n

        def now(n: int) -> int:
            return n

        tools: execbox.Tools = {"t": [later, now]}
        with self.box as box:
            self.assertEqual(box.run("[await t.later({ n: 1 }), await t.now({ n: 2 })]", tools=tools).value, [1, 2])
            self.assertEqual(box.run_code("export default n => n + 1n", args=[execbox.BigInt(1)]).value, 2)
            self.assertIn("later", box.types(tools))
            self.assertEqual(box.usage().ended, 2)
            self.assertEqual(box.servers(), [])
        self.assertEqual(children(), [])
        with self.assertRaisesRegex(execbox.ExecutorClosed, "the executor is closed"):
            box.run("1")

    def test_threads_share_an_executor(self) -> None:
        values: list[Any] = []
        threads = [
            threading.Thread(target=lambda n=n: values.append(self.box.run(f"{n} + 1").value)) for n in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(values), list(range(1, 21)))

    def test_a_synchronous_tool_can_execute_a_program(self) -> None:
        def inner(code: str) -> Any:
            return self.box.run(code).value

        async def wrong(code: str) -> Any:
            return self.box.run(code).value

        tools: execbox.Tools = {"t": [inner, wrong]}
        self.assertEqual(self.box.run("await t.inner({ code: '1 + 1' })", tools=tools).value, 2)
        error = self.box.run("await t.wrong({ code: '1' })", tools=tools).error
        assert error is not None
        self.assertIn("cannot wait for its own executor", error.message)

    def test_it_works_inside_a_running_event_loop(self) -> None:
        async def main() -> Any:
            return self.box.run("1 + 1").value

        self.assertEqual(asyncio.run(main()), 2)

    def test_closing_fails_what_runs_in_other_threads(self) -> None:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                self.box.run("for (;;);", timeout=60)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while not self.box.usage().running:
            time.sleep(0.01)
        self.box.close()
        thread.join(30)
        self.assertIsInstance(raised[0], execbox.ExecutorClosed)


if __name__ == "__main__":
    unittest.main()
