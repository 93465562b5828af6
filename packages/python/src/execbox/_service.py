"""The connection to `execbox serve`: a process with pipes, or a socket. Lines and their attachments, in both directions."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from ._plain import read
from .errors import BinaryNotFound, ExecutorClosed, ServiceEnded, ServiceError

logger = logging.getLogger("execbox")

MAX_MESSAGE_BYTES = 16 << 20
MAX_ATTACHMENT_BYTES = 64 << 20
_READ_BYTES = 1 << 18
_MAX_UNSENT_BYTES = 1 << 20
_STDERR_TAIL_BYTES = 4096
_EXIT_SECONDS = 5.0

Message = dict[str, Any]


class Handler(Protocol):
    """What the service asks of the application."""

    def requested(self, method: str, params: Message, id: int, attachments: list[bytes]) -> None:
        """The service has sent a request."""

    def notified(self, method: str, params: Message, attachments: list[bytes]) -> None:
        """The service has sent a notification."""

    def ended(self, error: Exception) -> None:
        """The connection has ended, after its requests have failed with the error."""


class Service:
    """A connection. Everything happens in the event loop that it was made in."""

    def __init__(self, handler: Handler, *, command: Sequence[str] = (), path: str | None = None) -> None:
        """Starts the command, or connects to the socket at `path`."""
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self._handler = handler
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: dict[int, asyncio.Future[tuple[Any, list[bytes]]]] = {}
        self._last_id = 0
        self._lines = _Lines()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._stderr_tail = bytearray()
        self._end: asyncio.Task[None] | None = None
        if path is not None:
            self._input = self._output = _connect(path)
        else:
            self._process = _spawn(command)
            assert self._process.stdin and self._process.stdout and self._process.stderr
            self._output, self._input = self._process.stdin.fileno(), self._process.stdout.fileno()
            self._stderr = self._process.stderr.fileno()
            os.set_blocking(self._stderr, False)
            self.loop.add_reader(self._stderr, self._read_stderr)
        self.error: Exception | None = None
        """Why the connection has ended."""
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self.loop.add_reader(self._input, self._read)
        self.ready = self.request("initialize", '{"protocolVersion":1,"attachments":true}')
        """The answer to `initialize`. Further requests need not wait for it."""

    # ---- Messages of the application -----------------------------------------------------------------------------------

    def request(
        self, method: str, params: str = "{}", attachments: Sequence[bytes] = ()
    ) -> asyncio.Future[tuple[Any, list[bytes]]]:
        """Sends a request. The future has its result and the attachments of that."""
        id, future = self.prepare()
        self.submit(id, method, params, attachments)
        return future

    def prepare(self) -> tuple[int, asyncio.Future[tuple[Any, list[bytes]]]]:
        """Reserves the id of a request, which `submit` sends."""
        if self.error is not None:
            raise self.error
        self._last_id += 1
        future = self._requests[self._last_id] = self.loop.create_future()
        return self._last_id, future

    def submit(self, id: int, method: str, params: str, attachments: Sequence[bytes] = ()) -> None:
        """Sends the request. Fails with `ValueError` if it is too long."""
        try:
            frame = _frame(f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":', params, attachments)
        except ValueError:
            self._requests.pop(id, None)
            raise
        self._send(frame)

    def notify(self, method: str, params: str) -> None:
        """Sends a notification."""
        self._send(_frame(f'{{"jsonrpc":"2.0","method":"{method}","params":', params))

    def answer(self, id: int, result: str, attachments: Sequence[bytes] = ()) -> None:
        """Answers a request. Fails with `ValueError` if the answer is too long."""
        self._send(_frame(f'{{"jsonrpc":"2.0","id":{id},"result":', result, attachments))

    def answer_error(self, id: int, code: int, message: str, name: str | None = None) -> None:
        """Answers a request with an error. A message that is too long is cut."""
        error: Message = {"code": code, "message": message[:100_000]}
        if name is not None:
            error["data"] = {"name": name[:1000]}
        self._send(_frame(f'{{"jsonrpc":"2.0","id":{id},"error":', json.dumps(error, ensure_ascii=False)))

    @property
    def has_room(self) -> bool:
        """Whether the service has read most of what was sent."""
        return self._unsent_bytes <= _MAX_UNSENT_BYTES

    async def room(self) -> None:
        """Waits until the service has read most of what was sent."""
        while not self._room.is_set():
            await self._room.wait()

    def _send(self, frame: bytes) -> None:
        if self.error is not None:
            return
        if not self._unsent:
            try:
                written = os.write(self._output, frame)
            except BlockingIOError:
                written = 0
            except OSError:
                return  # the end of the output says why
            if written == len(frame):
                return
            self.loop.add_writer(self._output, self._write)
            self._keep(memoryview(frame)[written:])
        else:
            self._keep(memoryview(frame))

    def _keep(self, rest: memoryview) -> None:
        self._unsent.append(rest)
        self._unsent_bytes += len(rest)
        if self._unsent_bytes > _MAX_UNSENT_BYTES:
            self._room.clear()

    def _write(self) -> None:
        """The service can read more."""
        try:
            while self._unsent:
                first = self._unsent[0]
                written = os.write(self._output, first)
                self._unsent_bytes -= written
                if written < len(first):
                    self._unsent[0] = first[written:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
            self._unsent_bytes = 0
        if not self._unsent:
            self.loop.remove_writer(self._output)
        if self._unsent_bytes <= _MAX_UNSENT_BYTES:
            self._room.set()

    # ---- Messages of the service ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        """The service has sent something."""
        try:
            data = os.read(self._input, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._begin_end()
            return
        try:
            for line, attachments in self._lines.messages(data):
                self._receive(read(line), attachments)
        except Exception as error:
            # Another program than `execbox serve`, or a version of it that is not compatible.
            logger.debug("the service has sent an invalid message", exc_info=True)
            self._fail(
                ServiceEnded(f"the execbox service has sent an invalid message: {type(error).__name__}: {error}")
            )
            if self._process is not None:
                self._process.kill()
                self._end = self.loop.create_task(self._reap())

    def _receive(self, message: Message, attachments: list[bytes]) -> None:
        method = message.get("method")
        if method is None:
            self._answered(message, attachments)
        elif "id" in message:
            self._handler.requested(method, message["params"], message["id"], attachments)
        else:
            self._handler.notified(method, message["params"], attachments)

    def _answered(self, message: Message, attachments: list[bytes]) -> None:
        id = message.get("id")
        error = ServiceError(message["error"]["message"], message["error"]["code"]) if "error" in message else None
        result = message["result"] if error is None else None
        future = self._requests.pop(id, None) if id is not None else None
        if future is None:
            logger.error("the service has refused a message: %s", error)
        elif future.done():
            pass  # nobody waits for it any more
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result((result, attachments))

    def _read_stderr(self) -> None:
        try:
            data = os.read(self._stderr, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.loop.remove_reader(self._stderr)
            return
        self._stderr_tail += data
        del self._stderr_tail[:-_STDERR_TAIL_BYTES]
        for line in data.decode(errors="replace").splitlines():
            logger.info("%s", line)

    # ---- The end -------------------------------------------------------------------------------------------------------

    def is_here(self) -> bool:
        """Whether this is the event loop and the process of the connection.

        Fails with `RuntimeError` in another loop while its own one is open.
        """
        if self.pid != os.getpid():
            return False
        if self.loop is not asyncio.get_running_loop() and not self.loop.is_closed():
            raise RuntimeError("this executor is used in another event loop; make one for each loop")
        return not self.loop.is_closed()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.error is None and self._end is None

    def _begin_end(self) -> None:
        """The service has closed its output."""
        self.loop.remove_reader(self._input)
        if self._end is None:
            self._end = self.loop.create_task(self._finish())

    async def _finish(self) -> None:
        status = await self._wait_for_exit()
        if self._process is not None:
            self._read_stderr()
        tail = self._stderr_tail.decode(errors="replace").strip()
        self._fail(ServiceEnded(f"the execbox service ended{status}" + (f": {tail}" if tail else "")))

    async def _reap(self) -> None:
        await self._wait_for_exit()

    async def _wait_for_exit(self) -> str:
        """Waits until the process has ended, and kills it if it does not. Returns how it ended, for a message."""
        process = self._process
        if process is None:
            return ""
        step, end = 0.0005, self.loop.time() + _EXIT_SECONDS
        while process.poll() is None:
            if self.loop.time() > end:
                process.kill()
            await asyncio.sleep(step)
            step = min(2 * step, 0.05)
        if process.returncode >= 0:
            return f" with the exit code {process.returncode}"
        try:
            return f", killed by {signal.Signals(-process.returncode).name}"
        except ValueError:
            return f", killed by signal {-process.returncode}"

    def _fail(self, error: Exception) -> None:
        """Ends the connection: every request fails with the error."""
        if self.error is not None:
            return
        self.error = error
        self._release()
        requests, self._requests = self._requests, {}
        for future in requests.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # a request that nobody waits for is no mistake
        self._room.set()
        self._handler.ended(error)

    def _release(self) -> None:
        # A process that was forked shares what the loop waits with.
        if not self.loop.is_closed() and self.pid == os.getpid():
            self.loop.remove_reader(self._input)
            self.loop.remove_writer(self._output)
            if self._process is not None:
                self.loop.remove_reader(self._stderr)
        self._unsent.clear()
        if self._process is None:
            os.close(self._input)
            return
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    async def close(self) -> None:
        """Ends the service, with everything that runs. Requests without an answer fail with `ExecutorClosed`."""
        if self._end is not None:
            await asyncio.shield(self._end)
            return
        if self.error is None:
            self._fail(ExecutorClosed("the executor was closed"))
        await self._wait_for_exit()

    def abandon(self) -> None:
        """Closes what is open, for a loop that is closed or a process that was forked. The service then ends by itself."""
        if self.error is None:
            self.error = ExecutorClosed("the event loop of the executor has ended")
            self._release()

    def __del__(self) -> None:
        if getattr(self, "error", self) is None and self.pid == os.getpid():
            warnings.warn("an executor was not closed; use `async with`, or `close`", ResourceWarning, 2, self)
            self.abandon()


def _connect(path: str) -> int:
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.connect(path)
    except OSError as error:
        connected.close()
        raise ServiceError(f"cannot connect to the service at {path}: {error.strerror or error}") from None
    return connected.detach()


def _spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        # In a session of its own, an interrupt from the terminal goes to the application alone, which then ends the service.
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
    except OSError as error:
        raise BinaryNotFound(f"cannot start {command[0]}: {error.strerror or error}") from None


def _frame(head: str, body: str, attachments: Sequence[bytes] = ()) -> bytes:
    """A message with its attachments. Fails with `ValueError` if it is longer than a message can be."""
    try:
        encoded = body.encode()
    except UnicodeEncodeError:  # lone surrogates become U+FFFD
        encoded = body.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    length = len(head) + len(encoded) + 1
    if length > MAX_MESSAGE_BYTES:
        raise ValueError(
            f"a message of {length >> 20} MiB is too long: at most {MAX_MESSAGE_BYTES >> 20} MiB, apart from byte strings"
        )
    total = sum(map(len, attachments))
    if total > MAX_ATTACHMENT_BYTES:
        raise ValueError(
            f"the byte strings of a message have {total >> 20} MiB: at most {MAX_ATTACHMENT_BYTES >> 20} MiB"
        )
    attached = [part for each in attachments for part in (b"*%d\n" % len(each), each)]
    return b"".join([*attached, head.encode(), encoded, b"}\n"])


class _Lines:
    """Splits what is read into lines with their attachments."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        """The beginning of a line or of an attachment."""
        self._length = 0
        self._attachments: list[bytes] = []
        self._missing: int | None = None
        """The length of the attachment that is being read."""

    def messages(self, data: bytes) -> list[tuple[bytes, list[bytes]]]:
        """The messages that are complete with this data."""
        found: list[tuple[bytes, list[bytes]]] = []
        begin = 0
        while begin < len(data):
            if self._missing is not None:
                end = begin + self._missing - self._length
                is_complete = end <= len(data)
            else:
                end = data.find(b"\n", begin)
                is_complete = end >= 0
            if not is_complete:
                self._parts.append(data[begin:])
                self._length += len(data) - begin
                break
            whole = self._whole(data[begin:end])
            begin = end
            if self._missing is not None:
                self._attachments.append(whole)
                self._missing = None
                continue
            begin += 1
            if whole.startswith(b"*"):
                self._missing = int(whole[1:])
            else:
                found.append((whole, self._attachments))
                self._attachments = []
        return found

    def _whole(self, last: bytes) -> bytes:
        """What has come in parts."""
        if not self._parts:
            return last
        whole = b"".join([*self._parts, last])
        self._parts, self._length = [], 0
        return whole
