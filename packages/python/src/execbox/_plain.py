"""Plain JSON. Results of tools without a hint are written as pydantic writes them."""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from os import PathLike, fspath
from typing import Any


def _plain(value: Any) -> Any:
    """What stands for a value that is not JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if type(value).__name__ in ("UUID", "Decimal"):  # whose modules are imported by those who have one
        return str(value)
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, type):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not supported; return a type of JSON, a dataclass or a pydantic model")


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_plain_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
_decoder = json.JSONDecoder()


def write(value: Any) -> str:
    """Writes what is JSON."""
    return _encoder.encode(value)


def to_json(value: Any) -> str:
    """Writes a value as JSON. Fails with `TypeError` or `ValueError` if it cannot be JSON."""
    return _plain_encoder.encode(value)


def pieces(value: Any) -> Iterator[str]:
    """A value as JSON, piece by piece. Fails as `to_json`, when it comes to what cannot be JSON."""
    return _plain_encoder.iterencode(value)


def read(line: bytes) -> Any:
    """Reads a line of the service."""
    value, _ = _decoder.raw_decode(line.decode())
    return value
