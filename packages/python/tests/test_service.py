"""The service: its start, its end and what goes wrong between. Each test leaves no task and no child."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from support import BINARY, PACKAGE, ExecutorTest, children

import execbox


async def hang() -> None:
    await asyncio.sleep(3600)


def service_pid(box: execbox.Executor) -> int:
    """The process of the service."""
    pid: int = box._session.service._process.pid  # type: ignore[union-attr]
    return pid


class Ends(ExecutorTest):
    async def test_a_service_that_dies_fails_what_runs_and_is_started_again(self) -> None:
        for _ in range(3):
            started, ended = asyncio.Event(), asyncio.Event()

            async def tool() -> None:
                started.set()  # noqa: B023
                try:
                    await hang()
                finally:
                    ended.set()  # noqa: B023

            runs = [asyncio.create_task(self.box.run("await t.tool()", tools={"t": [tool]})) for _ in range(3)]
            await started.wait()
            os.kill(service_pid(self.box), signal.SIGKILL)
            for run in runs:
                with self.assertRaisesRegex(execbox.ServiceEnded, "the execbox service ended, killed by SIGKILL"):
                    await run
            await asyncio.wait_for(ended.wait(), 10)
            self.assertEqual(
                await self.value("await t.one()", tools={"t": [execbox.Tool.of(lambda: 1, name="one")]}), 1
            )
        self.assertEqual(len(children()), 1)

    async def test_closing_ends_what_runs(self) -> None:
        started = asyncio.Event()
        cancelled = asyncio.Event()

        async def tool() -> None:
            started.set()
            try:
                await hang()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async def run() -> None:
            with self.assertRaisesRegex(execbox.ExecutorClosed, "the executor was closed"):
                await self.box.run("await t.tool()", tools={"t": [tool]})

        task = asyncio.create_task(run())
        await started.wait()
        await self.box.close()
        self.assertTrue(cancelled.is_set())
        await task
        with self.assertRaisesRegex(execbox.ExecutorClosed, "the executor is closed"):
            await self.box.run("1")
        self.assertEqual(children(), [])
        await self.box.close()

    async def test_a_service_that_does_not_start_is_explained(self) -> None:
        for box, message in [
            (execbox.Executor("nowhere"), "nowhere"),
            (execbox.Executor(binary="/bin/false"), "the execbox service ended with the exit code 1"),
            (
                execbox.Executor(binary="/bin/cat"),
                "the execbox service ended with the exit code 1: /bin/cat: unrecognized option",
            ),
            (execbox.Executor(binary="/nonexistent/execbox"), "/nonexistent/execbox"),
            (
                execbox.Executor(socket="/nonexistent/socket"),
                "cannot connect to the service at /nonexistent/socket: No such file",
            ),
        ]:
            with self.subTest(message), self.assertRaises(execbox.ExecboxError) as raised:
                await box.run("1")
            self.assertIn(message, str(raised.exception))
            await box.close()
        self.assertEqual(children(), [])

    async def test_another_program_is_no_service(self) -> None:
        for answer in [
            "hello",
            "[]",
            '{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {}}',
            "*9999999999",
            '{"id": 1}',
            "*x",
        ]:
            with tempfile.TemporaryDirectory() as place:
                script = Path(place) / "execbox"
                script.write_text(f"#!/bin/sh\necho '{answer}'\nsleep 0.2\n")
                script.chmod(stat.S_IRWXU)
                box = execbox.Executor(binary=script)
                with self.subTest(answer), self.assertRaises(execbox.ServiceEnded):
                    await box.run("1")
                await box.close()

    async def test_a_missing_binary_is_explained(self) -> None:
        environment = dict(os.environ)
        try:
            os.environ["EXECBOX_BIN"] = "/nonexistent/execbox"
            with self.assertRaisesRegex(
                execbox.BinaryNotFound, "EXECBOX_BIN is '/nonexistent/execbox', which is not a program"
            ):
                await self.box.run("1")
            del os.environ["EXECBOX_BIN"]
            os.environ["PATH"] = "/nonexistent"
            with self.assertRaisesRegex(
                execbox.BinaryNotFound, "without its binary, .* none for linux on .*; build it with .*EXECBOX_BIN"
            ):
                await self.box.run("1")
        finally:
            os.environ.update(environment)

    async def test_an_executor_belongs_to_one_loop(self) -> None:
        await self.value("1")
        loop = asyncio.new_event_loop()
        with self.assertRaisesRegex(RuntimeError, "another event loop"):
            await asyncio.to_thread(loop.run_until_complete, self.box.run("1"))
        loop.close()

    async def test_a_socket_serves_many(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "socket"
            service = subprocess.Popen([BINARY, "serve", "--listen", f"unix:{path}"], stderr=subprocess.DEVNULL)
            try:
                while not path.exists():
                    await asyncio.sleep(0.01)
                async with execbox.Executor(socket=path) as one, execbox.Executor(socket=path) as two:
                    self.assertEqual([(await box.run("1 + 1")).value for box in (one, two)], [2, 2])
                    run = asyncio.create_task(one.run("for (;;);", timeout=60))
                    while not (await one.usage()).running:
                        await asyncio.sleep(0.01)
                    service.kill()
                    with self.assertRaisesRegex(execbox.ServiceEnded, "the execbox service ended$"):
                        await run
            finally:
                service.kill()
                service.wait()

    async def test_large_messages_cross(self) -> None:
        async def echo(text: str) -> str:
            return text

        text = "é" * (1 << 20)
        code = f"(await t.echo({{ text: 'é'.repeat({1 << 20}) }})).length"
        lengths = await asyncio.gather(*[self.value(code, tools={"t": [echo]}, timeout=60) for _ in range(4)])
        self.assertEqual(lengths, [len(text)] * 4)
        data = os.urandom(20 << 20)
        result = await self.box.run_code("export default x => x", args=[data], memory="256MiB")
        self.assertTrue(result.raise_for_error().value == data)
        with self.assertRaisesRegex(ValueError, "a message of 17 MiB is too long"):
            await self.box.run("/*" + "x" * (17 << 20) + "*/")
        with self.assertRaisesRegex(ValueError, "the byte strings of a message have 65 MiB"):
            await self.box.run_code("1", args=[bytes(65 << 20)])
        self.assertEqual(await self.value("1"), 1)

    async def test_options_of_the_executor_reach_the_service(self) -> None:
        async with execbox.Executor(max_memory="8MiB", max_programs=1, engine="quickjs") as box:
            self.assertEqual((await box.run("1", memory="8MiB")).value, 1)
            with self.assertRaisesRegex(execbox.ServiceError, "this service permits at most"):
                await box.run("1", memory="9MiB")

    async def test_the_service_tells_about_itself(self) -> None:
        await self.box.prewarm(1)
        checks = await self.box.self_test()
        self.assertTrue(checks and all(check.outcome != "failed" for check in checks))
        await self.value("1")
        usage = await self.box.usage()
        self.assertEqual((usage.ended, usage.failed, usage.running), (1, 0, 0))
        self.assertEqual(await self.box.servers(), [])


class Servers(ExecutorTest):
    async def test_servers_of_a_configuration_are_granted(self) -> None:
        server = textwrap.dedent("""
            import json, sys
            for line in sys.stdin:
                message = json.loads(line)
                if "id" not in message: continue
                result = {
                    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                   "serverInfo": {"name": "x", "version": "1"}},
                    "tools/list": {"tools": [{"name": "get-time", "inputSchema": {"type": "object"}}]},
                    "tools/call": {"content": [{"type": "text", "text": "noon"}]},
                }.get(message["method"], {})
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
        """)
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "server.py").write_text(server)
            command = f"{sys.executable} {place}/server.py"
            async with execbox.Executor(servers={"clock": command, "broken": "/nonexistent/server"}) as box:
                clock, broken = sorted(await box.servers(), key=lambda server: server.problem is not None)
                self.assertEqual((clock.name, clock.tools), ("clock", {"get-time": "get_time"}))
                self.assertIn("get_time", clock.types or "")
                self.assertIsNotNone(broken.problem)
                result = await box.run("await clock.get_time()", servers=["clock"])
                self.assertEqual(result.raise_for_error().value, "noon")


class Processes(unittest.TestCase):
    """Whole programs: how they end."""

    def python(
        self, code: str, *, kill_after: str | None = None, with_signal: int = signal.SIGKILL
    ) -> tuple[int, str, str]:
        """Runs a program. If `kill_after` is given, it gets the signal once it has printed that line."""
        # What `-X dev` says of callbacks that take long depends on the machine.
        quiet = "import logging; logging.getLogger('asyncio').addFilter(lambda entry: 'Executing' not in entry.msg)\n"
        program = quiet + textwrap.dedent(code)
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE / "src")}
        process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        if kill_after is not None:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline().strip(), kill_after)
            process.send_signal(with_signal)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def assert_ends(self, pid: int) -> None:
        """The process ends, which has another parent now."""
        for _ in range(1000):
            try:
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return
            except OSError:
                return
            signal.sigtimedwait([], 0.02)
        self.fail(f"{pid} runs")

    def test_a_program_that_ends_while_programs_run(self) -> None:
        code = """
            import asyncio, execbox
            async def main():
                async with execbox.Executor() as box:
                    run = asyncio.create_task(box.run("for (;;);", timeout=60))
                    while not (await box.usage()).running: pass
                    print(box._session.service._process.pid)
                    {}
            asyncio.run(main())
        """
        for statement, expected in [
            ("pass", ""),
            ("raise ValueError('mine')", "ValueError: mine"),
            ("raise SystemExit(0)", ""),
        ]:
            _, out, err = self.python(code.format(statement))
            self.assertEqual(err.strip().splitlines()[-1:], [expected] if expected else [], err)
            self.assert_ends(int(out))

    def test_an_executor_that_is_not_closed(self) -> None:
        status, out, err = self.python("""
            import asyncio, execbox
            async def main():
                box = execbox.Executor()
                await box.run("1")
                print(box._session.service._process.pid)
            asyncio.run(main())
        """)
        self.assertEqual(status, 0)
        self.assertIn("ResourceWarning: an executor was not closed", err)
        self.assertNotIn("Traceback", err)
        self.assert_ends(int(out))

    def test_an_application_that_is_killed(self) -> None:
        code = """
            import asyncio, execbox
            async def tool():
                print("running", flush=True)
                print(box._session.service._process.pid, flush=True)
                await asyncio.sleep(3600)
            async def main():
                global box
                async with execbox.Executor() as box:
                    await box.run("await t.tool()", tools={"t": [tool]}, timeout=60)
            asyncio.run(main())
        """
        for with_signal in (signal.SIGKILL, signal.SIGTERM):
            _, out, _ = self.python(code, kill_after="running", with_signal=with_signal)
            for pid in out.split():
                self.assert_ends(int(pid))

    def test_an_interrupt_cancels(self) -> None:
        status, _, err = self.python(
            """
            import execbox, signal
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
            def tool() -> None:
                print("running", flush=True)
            with execbox.SyncExecutor() as box:
                try:
                    box.run("await t.tool(); for (;;);", tools={"t": [tool]}, timeout=60)
                except KeyboardInterrupt:
                    assert box.run("1 + 1").value == 2
            """,
            kill_after="running",
            with_signal=signal.SIGINT,
        )
        self.assertEqual((status, err), (0, ""))

    def bench(self, name: str, *arguments: str) -> None:
        """Runs a small part of a benchmark, which fails if anything is left."""
        command = [sys.executable, str(PACKAGE.parent.parent / "benches" / name), BINARY, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE / "src")}
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_many_executions_leave_nothing(self) -> None:
        self.bench("python/soak", "240")

    def test_kills_leave_no_process(self) -> None:
        self.bench("kills", "9", "python")

    def test_a_process_that_was_forked_has_a_service_of_its_own(self) -> None:
        with execbox.SyncExecutor() as box:
            self.assertEqual(box.run("1").value, 1)
            _, out, err = self.python("""
                import asyncio, execbox, os
                async def main():
                    box = execbox.Executor()
                    await box.run("1")
                    return box
                loop = asyncio.new_event_loop()
                box = loop.run_until_complete(main())
                pid = os.fork()
                if pid == 0:
                    other = asyncio.new_event_loop()
                    print(other.run_until_complete(box.run("2")).value)
                    other.run_until_complete(box.close())
                    os._exit(0)
                os.waitpid(pid, 0)
                print(loop.run_until_complete(box.run("3")).value)
                loop.run_until_complete(box.close())
            """)
            self.assertEqual(out.split(), ["2", "3"], err)

    def test_the_example_of_the_readme(self) -> None:
        example = (PACKAGE / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
        status, out, err = self.python(example)
        self.assertEqual((status, out, err), (0, "1 [] None\n", ""))

    def test_the_module_is_the_binary(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE / "src")}
        for options in (["run", "-e", "1 + 1"], ["--version"]):
            here = subprocess.run(
                [sys.executable, "-m", "execbox", *options], env=environment, capture_output=True, text=True
            )
            there = subprocess.run([BINARY, *options], capture_output=True, text=True)
            self.assertEqual((here.stdout, here.returncode), (there.stdout, there.returncode))

    def test_the_version_is_that_of_the_binary(self) -> None:
        version = subprocess.run([BINARY, "--version"], capture_output=True, text=True).stdout.split()[1]
        self.assertEqual(execbox.__version__, version)


if __name__ == "__main__":
    unittest.main()
