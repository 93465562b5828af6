"""Values of modules: Python objects to tagged JSON, and back.

JSON stands for itself. What JSON lacks is an object with one key that begins with `$`.

| JavaScript | to Python | from Python |
|---|---|---|
| `null`, `undefined` | `None` | `None`, `UNDEFINED` |
| boolean, string | `bool`, `str` | the same |
| number | `int` if it is a whole number up to 2^53 − 1, else `float` | `int` up to 2^53 − 1, `float` |
| bigint | `BigInt`, an `int` | `BigInt`, every greater `int` |
| `Date` | `datetime` in UTC | `datetime` (without a zone: local time), `date` |
| `Uint8Array`, `ArrayBuffer`, `DataView` | `bytes` | `bytes`, `bytearray`, `memoryview`: a `Uint8Array` |
| other typed arrays | `array.array` | `array.array` |
| array | `list` (a hole is `None`) | `list`, `tuple` |
| object | `dict` | `dict` with strings as keys, dataclasses, pydantic models, `TypedDict` |
| `Map` | `Map`, a `dict`; or a list of pairs | `Map`, `dict` with other keys |
| `Set` | `set`; or a list | `set`, `frozenset` |
| `Error` | `ErrorValue` | `ErrorValue`, every exception |
| `RegExp` | `RegExp` | `RegExp` |
| function | a function of the application that a program passes back | functions: a synchronous one blocks the program |
| promise | – | awaitables |
| anything else | `Tagged`, which can be passed back | `Tagged` |

A `Map` or a `Set` is a list if a key cannot be hashed, two are equal in Python, such as 1 and `True`, or more than 100 are numbers
beyond 2^60. Objects that are shared, or part of a cycle, stay so.
"""

from __future__ import annotations

import base64
import enum
import functools
import inspect
import math
import sys
from array import array
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final, NamedTuple, Protocol

from .errors import SerializationError, message_of

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 100
MAX_HOLES = 100_000
"""The holes of arrays in a message: each is a `None` in Python."""
MAX_COPIED_BYTES = 64 << 20
"""What the views of buffers in a message may take: each is a copy in Python."""
MAX_HUGE_KEYS = 100
"""Programs can choose integers beyond 2^60 that have the same hash, and so make a set of them take quadratic time."""
MIN_ATTACHED_BYTES = 257

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_VIEWS = {
    "Int8Array": "b",
    "Int16Array": "h",
    "Uint16Array": "H",
    "Int32Array": "i",
    "Uint32Array": "I",
    "BigInt64Array": "q",
    "BigUint64Array": "Q",
    "Float32Array": "f",
    "Float64Array": "d",
}


class _Undefined(enum.Enum):
    UNDEFINED = "undefined"

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> bool:
        return False


UNDEFINED: Final = _Undefined.UNDEFINED
"""`undefined`, for values that are passed to a program. What a program passes as `undefined` is `None`."""


class BigInt(int):
    """A bigint of JavaScript, also if a number could hold it."""


class Map(dict[Any, Any]):
    """A `Map` of JavaScript, also if its keys are strings."""


class RegExp(NamedTuple):
    """A regular expression of JavaScript."""

    source: str
    flags: str = ""


class ErrorValue(Exception):
    """An `Error` of JavaScript that is a value: it was returned or passed, not thrown."""

    def __init__(self, name: str, message: str = "", cause: Any = None) -> None:
        super().__init__(name, message)
        self.name = name
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


class Tagged(NamedTuple):
    """A value that Python has no type for, such as an invalid date, as tagged JSON. It can be passed back."""

    json: Any


class Handles(Protocol):
    """Functions and promises of the application that a program was given, by their numbers."""

    def add_function(self, function: Callable[..., Any]) -> int: ...

    def add_promise(self, awaitable: Awaitable[Any]) -> int: ...

    def function(self, number: int) -> Callable[..., Any] | None: ...


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calls of the function give an awaitable."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function if inspect.isroutine(function) else type(function).__call__)


# ---- To a program ------------------------------------------------------------------------------------------------------


def encode(value: Any, handles: Handles, attachments: list[bytes]) -> Any:
    """Writes a value as tagged JSON. Long byte strings are appended to `attachments`."""
    count = len(attachments)
    try:
        return _Encoder(handles, attachments, wrap=False).encode(value)
    except _Shared:
        # Objects are only numbered if one of them is shared.
        del attachments[count:]
        return _Encoder(handles, attachments, wrap=True).encode(value)


class _Shared(Exception):
    """An object is met again."""


class _Encoder:
    def __init__(self, handles: Handles, attachments: list[bytes], wrap: bool) -> None:
        self.handles = handles
        self.attachments = attachments
        self.wrap = wrap
        self.numbers: dict[int, int] = {}
        self.depth = 0

    def encode(self, value: Any) -> Any:
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is str:
            return value
        if kind is int:
            return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else {"$bigint": _digits(value)}
        if kind is float:
            return _encode_float(value)
        return self._encode_object(value)

    def _encode_object(self, value: Any) -> Any:
        if isinstance(value, (list, dict, set, bytearray, array)) or _is_model(value):
            number = self.numbers.get(id(value))
            if number is not None:
                if not self.wrap:
                    raise _Shared
                return {"$ref": number}
            number = self.numbers[id(value)] = len(self.numbers) + 1
            encoded = self._nested(value)
            return {"$id": number, "$value": encoded} if self.wrap else encoded
        return self._nested(value)

    def _nested(self, value: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SerializationError(f"the value is nested deeper than {MAX_DEPTH} levels")
        encoded = self._encode_kind(value)
        self.depth -= 1
        return encoded

    def _encode_kind(self, value: Any) -> Any:
        if isinstance(value, RegExp):
            return {"$regexp": value.source, "flags": value.flags}
        if isinstance(value, Tagged):
            return value.json
        if isinstance(value, (list, tuple)):
            return self._items(value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, enum.Enum) and value is not UNDEFINED:
            return self.encode(value.value)
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int):
            return {"$bigint": _digits(value)} if isinstance(value, BigInt) else self.encode(int(value))
        if isinstance(value, float):
            return _encode_float(float(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(bytes(value))
        if isinstance(value, (set, frozenset)):
            return {"$set": self._items(list(value))}
        if isinstance(value, date):
            return {"$date": _milliseconds(value)}
        return self._encode_rest(value)

    def _encode_rest(self, value: Any) -> Any:
        if value is UNDEFINED:
            return {"$undefined": True}
        if isinstance(value, BaseException):
            return self._error(value)
        if isinstance(value, array):
            return self._array(value)
        if hasattr(value, "model_dump") and not isinstance(value, type):
            return self._mapping(value.model_dump())
        if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
            return self._mapping({name: getattr(value, name) for name in value.__dataclass_fields__})
        if inspect.isawaitable(value):
            return {"$promise": self.handles.add_promise(value)}
        if callable(value) and not isinstance(value, type):
            kind = "async" if is_async(value) else "sync"
            name = getattr(value, "__name__", "")
            return {"$function": self.handles.add_function(value), "kind": kind, "name": name}
        raise SerializationError(
            f"{type(value).__name__} is not supported; use a type that both languages have, such as str, float, dict or datetime"
        )

    def _items(self, values: Any) -> list[Any]:
        items = []
        for index, value in enumerate(values):
            try:
                items.append(self.encode(value))
            except SerializationError as error:
                raise error.inside(index) from None
        return items

    def _mapping(self, mapping: Mapping[Any, Any]) -> Any:
        if isinstance(mapping, Map) or not all(isinstance(key, str) for key in mapping):
            return {"$map": [self._pair(key, value) for key, value in mapping.items()]}
        members = {}
        for key, value in mapping.items():
            try:
                members["$" + key if key.startswith("$") else str(key)] = self.encode(value)
            except SerializationError as error:
                raise error.inside(key) from None
        return members

    def _pair(self, key: Any, value: Any) -> list[Any]:
        try:
            return [self.encode(key), self.encode(value)]
        except SerializationError as error:
            raise error.inside(repr(key)) from None

    def _bytes(self, value: bytes) -> Any:
        if len(value) < MIN_ATTACHED_BYTES:
            return {"$bytes": base64.b64encode(value).decode()}
        self.attachments.append(value)
        return {"$bytes": {"$attachment": len(self.attachments) - 1}}

    def _array(self, value: array[Any]) -> Any:
        if value.typecode == "u":
            return str(value.tounicode())
        if sys.byteorder == "big":
            value = value[:]
            value.byteswap()
        data = value.tobytes()
        signed, whole = value.typecode.islower(), value.typecode not in "fd"
        for name, code in _VIEWS.items():
            same_sign = code.islower() == signed
            if array(code).itemsize == value.itemsize and (code not in "fd") == whole and (same_sign or not whole):
                return {
                    "$view": name,
                    "of": {"$buffer": base64.b64encode(data).decode()},
                    "offset": 0,
                    "length": len(value),
                }
        return self._bytes(data)

    def _error(self, error: BaseException) -> Any:
        if isinstance(error, ErrorValue):
            encoded: dict[str, Any] = {"$error": error.name, "message": error.message}
            if error.cause is not None:
                encoded["cause"] = self.encode(error.cause)
            return encoded
        return {"$error": type(error).__name__, "message": message_of(error)}


def _is_model(value: Any) -> bool:
    return hasattr(value, "__dataclass_fields__") or hasattr(value, "model_dump")


def _encode_float(value: float) -> Any:
    if math.isfinite(value):
        return {"$number": "-0"} if value == 0 and math.copysign(1, value) < 0 else value
    return {"$number": "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"}


def _digits(value: int) -> str:
    return str(value) if -(1 << 2000) < value < 1 << 2000 else hex(value)


def _milliseconds(value: date) -> int:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    if value.tzinfo is None:
        value = value.astimezone()
    return (value - _EPOCH) // _MILLISECOND


# ---- From a program ----------------------------------------------------------------------------------------------------


def decoder(handles: Handles, attachments: list[bytes]) -> Callable[[Any], Any]:
    """Reads the tagged JSON of one message of the service."""
    budget = _Budget()

    def decode(json: Any) -> Any:
        try:
            return _Decoder(json, handles, attachments, budget).decode(json)
        except _Unordered:
            return Tagged(json)

    return decode


class _Budget:
    """What a program can make large with little, and may still make."""

    def __init__(self) -> None:
        self.holes = MAX_HOLES
        self.copied = MAX_COPIED_BYTES


class _Unordered(Exception):
    """A `Map`, a `Set` or an error is part of itself."""


class _Decoder:
    def __init__(self, root: Any, handles: Handles, attachments: list[bytes], budget: _Budget) -> None:
        self.root = root
        self.handles = handles
        self.attachments = attachments
        self.budget = budget
        self.objects: dict[int, Any] = {}
        self.open: set[int] = set()
        self.numbered: dict[int, dict[str, Any]] | None = None

    def decode(self, json: Any) -> Any:
        kind = type(json)
        if kind is dict:
            for key in json:
                if key.startswith("$"):
                    return self._tagged(json, key)
                break
            return self._members(json, {})
        if kind is list:
            return [self.decode(item) for item in json]
        if kind is float:
            return int(json) if json.is_integer() and abs(json) <= MAX_SAFE_INTEGER else json
        if kind is int and abs(json) > MAX_SAFE_INTEGER:
            return float(json)
        return json

    def _members(self, json: dict[str, Any], into: dict[str, Any]) -> dict[str, Any]:
        for key, value in json.items():
            into[key[1:] if key.startswith("$") else key] = self.decode(value)
        return into

    def _tagged(self, json: dict[str, Any], tag: str) -> Any:
        if tag == "$id":
            return self._shared(json)
        read = _READERS.get(tag)
        if read is not None:
            return read(self, json)
        return self._members(json, {}) if tag.startswith("$$") else Tagged(json)

    def _shared(self, json: dict[str, Any]) -> Any:
        """An object that references can refer to. Lists and objects are known before their members, so that they can contain
        themselves."""
        number, value = json["$id"], json["$value"]
        if number in self.objects:
            return self.objects[number]
        if isinstance(value, list):
            items = self.objects[number] = []
            items.extend(self.decode(item) for item in value)
            return items
        tag = next(iter(value), "")
        if not tag.startswith("$") or tag.startswith("$$"):
            members = self.objects[number] = {}
            return self._members(value, members)
        if number in self.open:
            raise _Unordered
        self.open.add(number)
        self.objects[number] = decoded = self.decode(value)
        return decoded

    def _reference(self, json: dict[str, Any]) -> Any:
        number = json["$ref"]
        if number not in self.objects:  # it can come before its object
            if self.numbered is None:
                self.numbered = _numbered(self.root)
            return self._shared(self.numbered[number])
        return self.objects[number]

    def _date(self, json: dict[str, Any]) -> Any:
        try:
            return _EPOCH + json["$date"] * _MILLISECOND
        except (TypeError, OverflowError):
            return Tagged(json)

    def _map(self, json: dict[str, Any]) -> Any:
        pairs = [(self.decode(key), self.decode(value)) for key, value in json["$map"]]
        if not _can_be_keys([key for key, _ in pairs]):
            return pairs
        decoded = Map(pairs)
        return decoded if len(decoded) == len(pairs) else pairs

    def _set(self, json: dict[str, Any]) -> Any:
        items = [self.decode(item) for item in json["$set"]]
        if not _can_be_keys(items):
            return items
        decoded = set(items)
        return decoded if len(decoded) == len(items) else items

    def _error(self, json: dict[str, Any]) -> Any:
        cause = self.decode(json["cause"]) if "cause" in json else None
        return ErrorValue(json["$error"], json.get("message", ""), cause)

    def _data(self, value: Any) -> bytes:
        return base64.b64decode(value) if isinstance(value, str) else self.attachments[value["$attachment"]]

    def _view(self, json: dict[str, Any]) -> Any:
        buffer, name, offset = self.decode(json["of"]), json["$view"], json.get("offset", 0)
        code = "B" if name in ("Uint8Array", "Uint8ClampedArray", "DataView") else _VIEWS.get(name)
        if not isinstance(buffer, bytes) or code is None:
            return Tagged(json)
        size = array(code).itemsize
        length = json.get("length", (len(buffer) - offset) // size) * size
        self.budget.copied -= length
        if self.budget.copied < 0:
            raise SerializationError(f"the views of buffers take more than {MAX_COPIED_BYTES >> 20} MiB")
        data = buffer[offset : offset + length]
        if code == "B":
            return data
        decoded = array(code, data)
        if sys.byteorder == "big":
            decoded.byteswap()
        return decoded

    def _sparse(self, json: dict[str, Any]) -> Any:
        """An array with holes. Its length can be 2^32, and it can have further members."""
        length, members = json["$sparse"], json["items"]
        holes = max(0, length - len(members))
        if holes > self.budget.holes or not all(key.isdecimal() and int(key) < length for key in members):
            return Tagged(json)
        self.budget.holes -= holes
        items = [None] * length
        for key, value in members.items():
            items[int(key)] = self.decode(value)
        return items

    def _function(self, json: dict[str, Any]) -> Any:
        return self.handles.function(json["$function"]) or Tagged(json)


_READERS: dict[str, Callable[[_Decoder, dict[str, Any]], Any]] = {
    "$undefined": lambda _, json: None,
    "$number": lambda _, json: float(json["$number"].replace("Infinity", "inf")),
    "$bigint": lambda _, json: BigInt(_integer(json["$bigint"])),
    "$date": _Decoder._date,
    "$map": _Decoder._map,
    "$set": _Decoder._set,
    "$regexp": lambda _, json: RegExp(json["$regexp"], json.get("flags", "")),
    "$error": _Decoder._error,
    "$bytes": lambda decoder, json: decoder._data(json["$bytes"]),
    "$buffer": lambda decoder, json: decoder._data(json["$buffer"]),
    "$view": _Decoder._view,
    "$boxed": lambda decoder, json: decoder.decode(json["$boxed"]),
    "$function": _Decoder._function,
    "$sparse": _Decoder._sparse,
    "$ref": _Decoder._reference,
}


def _numbered(root: Any) -> dict[int, dict[str, Any]]:
    """The objects that references can refer to, by their numbers."""
    found: dict[int, dict[str, Any]] = {}
    rest = [root]
    while rest:
        json = rest.pop()
        if isinstance(json, dict):
            if "$id" in json and "$value" in json:
                found[json["$id"]] = json
            rest.extend(json.values())
        elif isinstance(json, list):
            rest.extend(json)
    return found


def _can_be_keys(values: list[Any]) -> bool:
    """Whether the values can be hashed, in linear time."""
    huge = 0
    for value in values:
        if isinstance(value, (list, dict, set, array, Tagged)):
            return False
        huge += isinstance(value, (int, float)) and abs(value) >= 1 << 60
    return huge <= MAX_HUGE_KEYS


def _integer(digits: str) -> int:
    return int(digits, 16) if "x" in digits else int(digits)
