"""An MCP client that starts a server and exchanges messages with it on its standard input and output."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

TIME_LIMIT = 60  # seconds from the start of a server to its exit


class Client:
    """The server runs while this is a context. An error in the context kills all processes of the server, and prints what
    it wrote to standard output and standard error."""

    def __init__(self, command: Sequence[str], directory: Path, environment: dict[str, str]) -> None:
        self._command = " ".join(command)
        self._options = {"args": command, "cwd": directory, "env": environment}
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None: the end of the output
        self._output = ""
        self._id = 0

    def __enter__(self) -> Client:
        text = {"encoding": "utf-8", "errors": "replace"}
        self._errors = tempfile.TemporaryFile("w+", **text)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        # In a process group of its own, because uvx and npx start further processes.
        self._process = subprocess.Popen(**self._options, **pipes, **text, bufsize=1, start_new_session=True)
        self._deadline = time.monotonic() + TIME_LIMIT
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error or self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # no process of the group is running
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join(timeout=1)
        if error:
            self._errors.seek(0)
            sys.stdout.write(f"{self._output}{self._errors.read()}")
        self._errors.close()

    def request(self, method: str, params: dict) -> dict:
        """The result of a request. Skips other messages of the server."""
        self._id += 1
        self._send({"id": self._id, "method": method, "params": params})
        while line := self._line():
            try:
                message = json.loads(line)
            except ValueError:
                raise SystemExit(f"error: {self._command}: invalid message: expected JSON, got {line!r}") from None
            if message.get("id") == self._id and "result" in message:
                return message["result"]
            if message.get("id") == self._id:
                raise SystemExit(f"error: {self._command}: {method} failed: {line.strip()}")
        raise SystemExit(f"error: {self._command}: no answer to {method}: {self._end()}")

    def notify(self, method: str) -> None:
        self._send({"method": method})

    def finish(self) -> None:
        """Closes the standard input of the server, which must then exit with status 0."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if (end := self._end()) != "exit status 0":
            raise SystemExit(f"error: {self._command}: expected exit status 0 after the end of its input, got {end}")

    def _send(self, message: dict) -> None:
        with contextlib.suppress(BrokenPipeError):  # `request` reports the exit of the server
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def _read(self) -> None:
        for line in self._process.stdout:
            self._output += line
            self._lines.put(line)
        self._lines.put(None)

    def _line(self) -> str | None:
        """The next line of standard output. None at its end, and after the time limit."""
        with contextlib.suppress(queue.Empty):
            return self._lines.get(timeout=self._remaining())

    def _end(self) -> str:
        """Waits for the exit of the server, until the time limit."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"exit status {self._process.wait(timeout=self._remaining())}"
        return f"still running after {TIME_LIMIT} s"

    def _remaining(self) -> float:
        return max(0, self._deadline - time.monotonic())
