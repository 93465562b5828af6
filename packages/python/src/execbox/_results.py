"""The results of executions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .errors import Frame, Position, ProgramError, SerializationError


class Usage(NamedTuple):
    """What an execution used. What is not known is `None`; of a program that did not start, most is not."""

    cpu_ms: float | None
    host_wait_ms: float | None
    calls: int
    peak_calls_in_flight: int
    bytes_in: int
    """The size of the answers to its calls."""
    bytes_out: int
    """The size of the inputs of its calls, its reports and its result."""
    source_bytes: int
    peak_memory_bytes: int | None
    peak_host_memory_bytes: int | None


class _Outcome:
    """What the results of both contracts have."""

    value: Any
    """The value of the program; `None` for `undefined`, and if the program failed."""
    error: ProgramError | None
    """Why the program failed."""
    duration_ms: float
    """Wall time from acceptance to result."""
    dropped_logs: int
    """How many calls of the console the log limits dropped."""
    dropped_events: int
    """How many events were dropped because the application did not read them in time."""
    unawaited: Mapping[str, Any] | None
    """The calls that the program did not await."""

    def __init__(self, json: Mapping[str, Any], value: Any, error: ProgramError | None) -> None:
        self.value = value
        self.error = error
        self._usage = json.get("usage")
        self.duration_ms = json["durationMs"]
        self.dropped_logs = json.get("droppedLogs", 0)
        self.dropped_events = json.get("droppedEvents", 0)
        self.unawaited = json.get("unawaited")

    @property
    def ok(self) -> bool:
        """Whether the program succeeded."""
        return self.error is None

    @property
    def usage(self) -> Usage:
        """What the program used."""
        used = self._usage or {}
        return Usage(
            used.get("cpuMs"),
            used.get("hostWaitMs"),
            used.get("calls", 0),
            used.get("peakCallsInFlight", 0),
            used.get("bytesIn", 0),
            used.get("bytesOut", 0),
            used.get("sourceBytes", 0),
            used.get("peakMemoryBytes"),
            used.get("peakHostMemoryBytes"),
        )

    def __repr__(self) -> str:
        shown = f"value={self.value!r}" if self.error is None else f"error={self.error!r}"
        return f"{type(self).__name__}({shown}, duration_ms={self.duration_ms})"


class Result(_Outcome):
    """The result of a script."""

    logs: list[str]
    """The lines of the console."""
    text: str | None
    """What a model reads: the value or the error, the log, and what is missing of them. `None` without `max_text_chars`."""

    def __init__(self, json: Mapping[str, Any]) -> None:
        error = json.get("error")
        failure = error and _error(error, error["code"], error.get("stack"), error.get("position"))
        super().__init__(json, json.get("result"), failure)
        self.logs = json["logs"]
        self.text = json.get("text")

    def raise_for_error(self) -> Result:
        """Returns the result, or raises its error if the program failed."""
        if self.error is not None:
            raise self.error
        return self


class LogCall(NamedTuple):
    """A call of the console in a module."""

    level: str
    args: list[Any]
    timestamp: float
    """In milliseconds since 1970."""


class CodeResult(_Outcome):
    """The result of a module."""

    status: str
    """`success`, `error`, `link_error`, `memory` or `terminated`."""
    logs: list[LogCall]
    reports: list[Any]
    """What the module has reported."""
    memory_used_bytes: int | None

    def __init__(self, json: Mapping[str, Any], decode: Callable[[Any], Any]) -> None:
        """`decode` reads the values."""
        error = json.get("error")
        failure = error and _error(error, json["status"], error.get("frames"), error if "line" in error else None)
        super().__init__(json, decode(json["result"]) if "result" in json else None, failure)
        self.status = json["status"]
        self.logs = [LogCall(log["level"], decode(log["args"]), log["timestamp"]) for log in json["logs"]]
        self.reports = [decode(value) for value in json["reports"]]
        self.memory_used_bytes = json.get("memoryUsedBytes")

    def raise_for_error(self) -> CodeResult:
        """Returns the result, or raises its error if the program failed."""
        if self.error is not None:
            raise self.error
        return self


def code_result(json: Mapping[str, Any], decode: Callable[[Any], Any]) -> CodeResult:
    """Reads the result of `run_code`. A value that cannot be read fails the program, as one that cannot be sent does."""
    try:
        return CodeResult(json, decode)
    except SerializationError as error:
        failure = {"name": "SerializationError", "message": f"the result cannot be read: {error}"}
        failed = {"status": "error", "error": failure, "logs": [], "reports": []}
        return CodeResult({**{key: value for key, value in json.items() if key != "result"}, **failed}, decode)


def _error(json: Mapping[str, Any], code: str, frames: Any, position: Mapping[str, Any] | None) -> ProgramError:
    return ProgramError(
        code,
        json["message"],
        name=json.get("name"),
        position=Position(position["line"], position["column"]) if position else None,
        stack=[
            Frame(each.get("function"), each.get("file"), each.get("line"), each.get("column")) for each in frames or ()
        ],
        cause=json.get("cause"),
    )
