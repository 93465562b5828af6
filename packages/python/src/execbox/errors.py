"""The exceptions of this package, all of them `ExecboxError`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple


class ExecboxError(Exception):
    """Base class of the exceptions of this package."""


class BinaryNotFound(ExecboxError):
    """There is no `execbox` binary."""


class ExecutorClosed(ExecboxError, asyncio.CancelledError):
    """The executor was closed before the request was answered.

    Closing cancels what runs: a task that nobody awaits ends with this error as one that was cancelled, without a complaint.
    """


class ServiceError(ExecboxError):
    """The service refused a request: invalid options, or a provider that cannot be added. `code` is that of JSON-RPC."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class ServiceEnded(ExecboxError):
    """The service ended before it answered a request. The next request starts another one."""


class SerializationError(ExecboxError, TypeError):
    """A value cannot cross between the application and a program. `path` says where it is: `.rows[3].price`."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason

    def inside(self, key: object) -> SerializationError:
        """The same error, as one of the value that has this one under `key`."""
        return SerializationError(self.reason, (f"[{key}]" if isinstance(key, int) else f".{key}") + self.path)


class ToolError(ExecboxError):
    """Raised by a tool: the program gets the message as the error of its call, with the code `tool_error`.

    Every other exception does the same. `name` is the name of the error that a module sees.
    """

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class InvalidInput(ToolError):
    """Raised by a tool: the program can correct its input. Its error has the code `validation_error`."""


class Position(NamedTuple):
    """A place in the source, counted from 1."""

    line: int
    column: int


class Frame(NamedTuple):
    """A frame of a stack."""

    function: str | None
    file: str | None
    line: int | None
    column: int | None


class ProgramError(ExecboxError):
    """Why a program failed. It is data of a result, and is raised by `raise_for_error`.

    If the program failed because a tool raised, that exception is the `__cause__` of this one.
    """

    code: str
    """Of a script `timeout`, `memory_limit`, `validation_error`, `tool_error`, `runtime_error`, `serialization_error` or
    `internal_error`; of a module `error`, `link_error`, `memory` or `terminated`."""
    message: str
    """What the program threw, or which limit it reached."""
    name: str | None
    """The name of the program's error, such as `TypeError`."""
    position: Position | None
    """Where in the source."""
    stack: list[Frame]
    """The frames, innermost first."""
    cause: Mapping[str, Any] | None
    """What happened, as data: `{"kind": "limit", "limit": "timeoutMs", …}`."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        name: str | None = None,
        position: Position | None = None,
        stack: list[Frame] | None = None,
        cause: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.name = name
        self.position = position
        self.stack = stack or []
        self.cause = cause

    def __str__(self) -> str:
        text = f"{self.name}: {self.message}" if self.name else self.message
        place = f" (line {self.position.line}, column {self.position.column})" if self.position else ""
        return f"{self.code}: {text}{place}"


def message_of(error: BaseException) -> str:
    """The message of an exception, for a program: without a traceback. The text of a `KeyError` is only the key."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if not text or isinstance(error, KeyError):
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text
