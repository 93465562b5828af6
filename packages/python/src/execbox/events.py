"""What happens in an execution, for `on_event`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class _Event:
    dropped: int = dataclasses.field(default=0, kw_only=True)
    """How many events of this execution were dropped before this one, because the application did not read them in time."""


@dataclasses.dataclass(frozen=True)
class Accepted(_Event):
    """The executor has the request. It may wait for a runner."""


@dataclasses.dataclass(frozen=True)
class Started(_Event):
    """The program is given to an engine or a runner."""


@dataclasses.dataclass(frozen=True)
class Log(_Event):
    """The program has written to its console."""

    level: str
    """`log`, `info`, `debug`, `warn` or `error`."""
    text: str | None = None
    """The line of a script."""
    args: list[Any] | None = None
    """The arguments of the call in a module."""


@dataclasses.dataclass(frozen=True)
class _CallEvent(_Event):
    call: int
    """The number of the call in its execution."""
    name: str
    """The name of the tool in programs, or of the function."""
    provider: str | None = dataclasses.field(default=None, kw_only=True)
    """The name of the provider. Functions of the application have none."""


@dataclasses.dataclass(frozen=True)
class CallBegan(_CallEvent):
    """A call begins; its input is not checked yet."""

    input_bytes: int


@dataclasses.dataclass(frozen=True)
class CallProgress(_CallEvent):
    """A tool reports how far it has come."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclasses.dataclass(frozen=True)
class CallWaiting(_CallEvent):
    """The call begins to wait for a person."""


@dataclasses.dataclass(frozen=True)
class CallResumed(_CallEvent):
    """The call does not wait for a person any more."""


@dataclasses.dataclass(frozen=True)
class CallDecided(_CallEvent):
    """The policy has decided about the call."""

    verdict: str
    """`allowed`, `denied`, `approved`, `refused` or `abandoned`."""
    waited_ms: float
    """How long the call waited for a person."""
    reason: str | None = None


@dataclasses.dataclass(frozen=True)
class CallEnded(_CallEvent):
    """The call has ended: with a value of `bytes`, with an `error`, or because the execution has ended."""

    duration_ms: float
    bytes: int | None = None
    error: dict[str, str] | None = None
    """`code` and `message`."""


@dataclasses.dataclass(frozen=True)
class Reported(_Event):
    """The module has reported a value."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Ended(_Event):
    """The execution has ended. Its result follows."""

    ok: bool


Event = (
    Accepted
    | Started
    | Log
    | CallBegan
    | CallProgress
    | CallWaiting
    | CallResumed
    | CallDecided
    | CallEnded
    | Reported
    | Ended
)

TYPES: dict[str, type[Any]] = {
    "accepted": Accepted,
    "started": Started,
    "log": Log,
    "call_began": CallBegan,
    "call_progress": CallProgress,
    "call_waiting": CallWaiting,
    "call_resumed": CallResumed,
    "call_decided": CallDecided,
    "call_ended": CallEnded,
    "reported": Reported,
    "ended": Ended,
}
_NAMES = {"inputBytes": "input_bytes", "waitedMs": "waited_ms", "durationMs": "duration_ms"}


def event(params: dict[str, Any], decode: Callable[[Any], Any]) -> Event:
    """Reads an event of the service. `decode` reads its values."""
    kind = TYPES[params["type"]]
    members = {_NAMES.get(key, key): value for key, value in params.items()}
    for key in ("args", "value"):
        if members.get(key) is not None:
            members[key] = decode(members[key])
    # Later versions of the service can have further members.
    read: Event = kind(**{key: value for key, value in members.items() if key in kind.__dataclass_fields__})
    return read
