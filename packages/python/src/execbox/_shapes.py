"""Types of the standard library: their JSON Schemas, and the conversion of their values from JSON and to JSON.

Those of JSON, dataclasses, `TypedDict`, `NamedTuple`, enums, `Literal`, unions, `datetime`, `Decimal`, `UUID`, `Path` and `bytes`.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import enum
import inspect
import json
import types
import typing
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

Json = Any
Schema = dict[str, Any]


class Mismatch(ValueError):
    """A value of JSON is not one of the type. `path` says where."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def inside(self, key: object) -> Mismatch:
        """The same error, as one of the value that has this one under `key`."""
        return Mismatch(self.reason, (f"[{key}]" if isinstance(key, int) else f".{key}") + self.path)


@dataclasses.dataclass(frozen=True)
class Shape:
    """A type: the schema of its values, and how they are read from JSON and written as JSON. Without a function, as they are."""

    schema: Schema
    load: Callable[[Json], Any] | None = None
    dump: Callable[[Any], Json] | None = None
    accepts: Callable[[Any], bool] | None = None
    """Whether a value of Python is one of the type, to choose one of a union."""


class Reader:
    """Reads the hints of one function. Types that are mentioned more than once, also by themselves, are in `$defs`."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.place = ""
        self.is_output = False
        """Whether the type is that of a result, which has all its members."""
        self.definitions: dict[str, Schema] = {}
        self.shapes: dict[Any, _Named] = {}

    def input(
        self, fields: dict[str, inspect.Parameter], hints: dict[str, Any]
    ) -> tuple[Schema, Callable[[Json], dict[str, Any]]]:
        members: dict[str, Shape] = {}
        rest: Shape | None = None
        for key, field in fields.items():
            self.place = f"the parameter {key} of {self.owner}"
            shape = self.shape(hints.get(key, Any))
            if field.kind is field.VAR_KEYWORD:
                rest = shape
            else:
                members[key] = shape
        required = [key for key in members if fields[key].default is inspect.Parameter.empty]
        schema = _object_schema(members, required)
        if rest is not None:
            schema["additionalProperties"] = rest.schema or True
        loads = {key: shape.load for key, shape in members.items()}
        load_rest = rest.load if rest else None
        # A program that passes nothing passes no arguments.
        return self._with_definitions(schema), lambda value: _load_members(
            {} if value is None else value, loads, load_rest
        )

    def output(self, hint: Any) -> tuple[Schema | None, Callable[[Any], Json] | None]:
        if hint in (Any, object):
            return None, None
        self.definitions, self.shapes = {}, {}
        self.is_output = True
        self.place = f"the result of {self.owner}"
        shape = self.shape(hint)
        return self._with_definitions(shape.schema), shape.dump

    def _with_definitions(self, schema: Schema) -> Schema:
        used = {name: definition for name, definition in self.definitions.items() if definition}
        return {**schema, "$defs": used} if used else schema

    def shape(self, hint: Any) -> Shape:
        """Reads a hint."""
        try:
            simple = _SIMPLE.get(hint)
        except TypeError:  # it cannot be hashed
            simple = None
        if simple is not None:
            return simple
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(arguments)
        if type(hint).__name__ == "TypeAliasType":  # from Python 3.12, or of typing_extensions
            return self.shape(hint.__value__)
        if isinstance(hint, typing.NewType):
            return self.shape(hint.__supertype__)
        if isinstance(hint, typing.TypeVar):
            return self.shape(hint.__bound__ or Any)
        if origin in (Union, types.UnionType):
            return self._union([self.shape(each) for each in arguments])
        if origin is Literal:
            return _choice(list(arguments), {each: each for each in arguments})
        if _is_marker(origin):
            return self.shape(arguments[0])
        if inspect.isclass(origin or hint):
            return self._class(origin or hint, arguments, hint)
        raise self._unsupported(hint)

    def _unsupported(self, hint: Any) -> TypeError:
        return TypeError(
            f"{self.place} has the type {_name_of(hint)}, which has no JSON Schema; use a dataclass, a TypedDict, a "
            f"pydantic model or a type of JSON, or give the schema: execbox.Tool(name, function, input_schema=…)"
        )

    def _annotated(self, arguments: tuple[Any, ...]) -> Shape:
        shape = self.shape(arguments[0])
        description = next((each for each in arguments[1:] if isinstance(each, str)), None)
        return dataclasses.replace(shape, schema={**shape.schema, "description": description}) if description else shape

    def _class(self, kind: type, arguments: tuple[Any, ...], hint: Any) -> Shape:
        if issubclass(kind, enum.Enum):
            by_value = {each.value: each for each in kind}
            return dataclasses.replace(
                _choice(list(by_value), by_value),
                dump=lambda value: getattr(value, "value", value),
                accepts=lambda value: isinstance(value, kind),
            )
        if hasattr(kind, "__required_keys__"):  # also of typing_extensions
            return self._named(kind, self._typed_dict)
        if dataclasses.is_dataclass(kind):
            return self._named(kind, self._dataclass)
        if issubclass(kind, tuple):
            if hasattr(kind, "_fields"):
                return self._named(kind, self._named_tuple)
            return self._tuple(arguments)
        if issubclass(kind, (collections.abc.Set, collections.abc.MutableSet)):
            return self._list(arguments, frozenset if issubclass(kind, frozenset) else set, {"uniqueItems": True})
        if issubclass(kind, collections.abc.Mapping):
            return self._mapping(arguments)
        if issubclass(kind, collections.abc.Iterable) and not issubclass(kind, (str, bytes)) and _is_collection(kind):
            return self._list(arguments, None, {})
        for base, shape in _SIMPLE.items():
            if isinstance(base, type) and base is not object and issubclass(kind, base):
                return shape
        raise self._unsupported(hint)

    def _union(self, shapes: list[Shape]) -> Shape:
        if all(shape.load is None and shape.dump is None for shape in shapes):
            return Shape({"anyOf": [shape.schema for shape in shapes]})

        def load(value: Json) -> Any:
            reasons = []
            # A type that reads what it is given as it is fits everything: it comes last.
            for shape in sorted(shapes, key=lambda shape: shape.load is None):
                try:
                    if shape.load is None:
                        if shape.accepts is None or shape.accepts(value):
                            return value
                        continue
                    return shape.load(value)
                except Mismatch as error:
                    reasons.append(error.reason)
            raise Mismatch("; ".join(reasons) or "none of the types")

        def dump(value: Any) -> Json:
            shape = next((shape for shape in shapes if shape.accepts is not None and shape.accepts(value)), None)
            return shape.dump(value) if shape is not None and shape.dump is not None else value

        return Shape({"anyOf": [shape.schema for shape in shapes]}, load, dump)

    def _list(self, arguments: tuple[Any, ...], make: Callable[[Any], Any] | None, extra: Schema) -> Shape:
        item = self.shape(arguments[0] if arguments else Any)
        schema: Schema = {"type": "array", **extra}
        if item.schema:
            schema["items"] = item.schema
        load_item, dump_item = item.load, item.dump

        def load(value: Json) -> Any:
            _expect(value, list, "an array")
            items = [_at(index, load_item, each) for index, each in enumerate(value)] if load_item else value
            return make(items) if make else items

        def dump(value: Any) -> Json:
            return [dump_item(each) for each in value] if dump_item else list(value)

        kind = (set, frozenset) if make else (list, tuple, collections.abc.Iterable)
        return Shape(
            schema,
            load if load_item or make else None,
            dump,
            lambda value: isinstance(value, kind) and not isinstance(value, (str, dict)),
        )

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        if not arguments or arguments[-1] is Ellipsis:
            shape = self._list(arguments[:1], tuple, {})
            return dataclasses.replace(shape, accepts=lambda value: isinstance(value, (tuple, list)))
        shapes = [self.shape(each) for each in arguments if each != ()]
        schema: Schema = {"type": "array", "minItems": len(shapes), "maxItems": len(shapes)}
        if shapes:
            schema["prefixItems"] = [shape.schema for shape in shapes]

        def load(value: Json) -> Any:
            _expect(value, list, "an array")
            if len(value) != len(shapes):
                raise Mismatch(f"expected {len(shapes)} items, got {len(value)}")
            return tuple(_at(index, shape.load, each) for index, (shape, each) in enumerate(zip(shapes, value)))

        def dump(value: Any) -> Json:
            return [shape.dump(each) if shape.dump else each for shape, each in zip(shapes, value)]

        return Shape(schema, load, dump, lambda value: isinstance(value, tuple))

    def _mapping(self, arguments: tuple[Any, ...]) -> Shape:
        key = self.shape(arguments[0]) if arguments else Shape({})
        value = self.shape(arguments[1] if arguments else Any)
        if key.schema.get("type", "string") != "string" and "enum" not in key.schema:
            raise self._unsupported(f"dict[{_name_of(arguments[0])}, …]")
        schema: Schema = {"type": "object"}
        if value.schema:
            schema["additionalProperties"] = value.schema
        load_key, load_value = key.load, value.load

        def load(json: Json) -> Any:
            _expect(json, dict, "an object")
            return {_at(name, load_key, name): _at(name, load_value, each) for name, each in json.items()}

        def dump(mapping: Any) -> Json:
            return {
                (key.dump(name) if key.dump else name): (value.dump(each) if value.dump else each)
                for name, each in mapping.items()
            }

        changes = load_key or load_value or value.dump or key.dump
        return Shape(
            schema,
            load if load_key or load_value else None,
            dump if changes else None,
            lambda value: isinstance(value, collections.abc.Mapping),
        )

    # Types with members: each is read once, and can refer to itself. One that is mentioned again has a definition.

    def _named(self, kind: type, read: Callable[[type], Shape]) -> Shape:
        named = self.shapes.get(kind)
        if named is None:
            named = self.shapes[kind] = _Named(self._unused_name(kind.__name__))
            self.definitions[named.name] = {}
            named.shape = read(kind)
            if not named.is_used:  # the first mention has the type itself
                return named.shape
        named.is_used = True
        if named.shape is not None:
            self.definitions[named.name] = named.shape.schema
        return named.reference()

    def _unused_name(self, name: str) -> str:
        while name in self.definitions:
            name += "_"
        return name

    def _typed_dict(self, kind: Any) -> Shape:
        hints = typing.get_type_hints(kind, include_extras=True)
        members = {key: self.shape(hint) for key, hint in hints.items()}
        # The class does not know which keys are optional if its annotations are strings.
        is_optional = {key for key, hint in hints.items() if _is_marker(get_origin(hint), "NotRequired")}
        schema = _object_schema(
            members, [key for key in members if key in kind.__required_keys__ and key not in is_optional]
        )
        return _object_shape(
            schema, members, dict, lambda value: value, lambda value: isinstance(value, collections.abc.Mapping)
        )

    def _dataclass(self, kind: Any) -> Shape:
        fields = {field.name: field for field in dataclasses.fields(kind) if field.init or self.is_output}
        hints = typing.get_type_hints(kind, include_extras=True)
        members = {key: self.shape(hints[key]) for key in fields}
        missing = dataclasses.MISSING
        required = [
            key
            for key, field in fields.items()
            if self.is_output or (field.default is missing and field.default_factory is missing)
        ]
        schema = _object_schema(members, required)
        for key, field in fields.items():
            if field.default is not missing and not self.is_output and is_json(field.default):
                schema["properties"][key] = {**schema["properties"][key], "default": field.default}
        return _object_shape(
            schema,
            members,
            lambda values: kind(**values),
            lambda value: {key: getattr(value, key) for key in members},
            lambda value: isinstance(value, kind),
        )

    def _named_tuple(self, kind: Any) -> Shape:
        hints = typing.get_type_hints(kind, include_extras=True)
        members = {key: self.shape(hints.get(key, Any)) for key in kind._fields}
        schema = _object_schema(members, [key for key in members if self.is_output or key not in kind._field_defaults])
        return _object_shape(
            schema,
            members,
            lambda values: kind(**values),
            lambda value: value._asdict(),
            lambda value: isinstance(value, kind),
        )


class _Named:
    """A type with members, which is read before they are known if it refers to itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shape: Shape | None = None
        self.is_used = False

    def reference(self) -> Shape:
        return Shape({"$ref": f"#/$defs/{self.name}"}, self._load, self._dump, self._accepts)

    def _load(self, value: Json) -> Any:
        assert self.shape is not None and self.shape.load is not None
        return self.shape.load(value)

    def _dump(self, value: Any) -> Json:
        assert self.shape is not None and self.shape.dump is not None
        return self.shape.dump(value)

    def _accepts(self, value: Any) -> bool:
        return self.shape is not None and self.shape.accepts is not None and self.shape.accepts(value)


def _object_schema(members: dict[str, Shape], required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": {key: dict(shape.schema) for key, shape in members.items()}}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _object_shape(
    schema: Schema,
    members: dict[str, Shape],
    make: Callable[[dict[str, Any]], Any],
    items: Callable[[Any], Any],
    accepts: Callable[[Any], bool],
) -> Shape:
    loads = {key: shape.load for key, shape in members.items()}

    def load(value: Json) -> Any:
        missing = [key for key in schema.get("required", ()) if isinstance(value, dict) and key not in value]
        if missing:
            raise Mismatch(f"{missing[0]} is missing")
        return make(_load_members(value, loads, None))

    def dump(value: Any) -> Json:
        values = items(value)
        return {
            key: shape.dump(values[key]) if shape.dump else values[key]
            for key, shape in members.items()
            if key in values
        }

    return Shape(schema, load, dump, accepts)


def _load_members(value: Json, loads: dict[str, Any], rest: Callable[[Json], Any] | None) -> dict[str, Any]:
    _expect(value, dict, "an object")
    members: dict[str, Any] = value
    if rest is None and not any(loads.values()):
        return members
    return {key: _at(key, loads.get(key, rest), each) for key, each in members.items()}


def _at(key: object, load: Callable[[Json], Any] | None, value: Json) -> Any:
    if load is None:
        return value
    try:
        return load(value)
    except Mismatch as error:
        raise error.inside(key) from None


def _choice(values: list[Any], by_value: dict[Any, Any]) -> Shape:
    def load(value: Json) -> Any:
        if not isinstance(value, collections.abc.Hashable) or value not in by_value:
            raise Mismatch(f"expected one of {json.dumps(values, default=str)}, got {json.dumps(value)}")
        return by_value[value]

    return Shape(
        {"enum": values}, load, None, lambda value: isinstance(value, collections.abc.Hashable) and value in by_value
    )


def _expect(value: Json, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise Mismatch(f"expected {name}, got {_kind_of(value)}")


def _kind_of(value: Json) -> str:
    kinds = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return kinds.get(type(value), "null")


def _is_collection(kind: type) -> bool:
    return kind in (list, collections.deque, collections.abc.Iterable, collections.abc.Collection) or issubclass(
        kind, (list, collections.abc.Sequence)
    )


def _name_of(hint: Any) -> str:
    return hint if isinstance(hint, str) else getattr(hint, "__name__", None) or repr(hint)


def _parsed(schema: Schema, kind: Any, load: Callable[[str], Any], dump: Callable[[Any], str]) -> Shape:
    """A type whose values are strings in JSON."""

    def checked(value: Json) -> Any:
        _expect(value, str, "a string")
        try:
            return load(value)
        except (ValueError, ArithmeticError) as error:
            raise Mismatch(
                f"expected {schema.get('format', kind.__name__)}, got {json.dumps(value)} ({error})"
            ) from None

    return Shape({"type": "string", **schema}, checked, dump, lambda value: isinstance(value, kind))


def _whole(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise Mismatch(f"expected an integer, got {json.dumps(value)}")
    return int(value)


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Mismatch(f"expected a number, got {_kind_of(value)}")
    return float(value)


def _text(value: Json) -> str:
    _expect(value, str, "a string")
    return str(value)


def _with_zone(text: str) -> str:
    """Python 3.10 does not read `Z`, with which JavaScript writes dates."""
    return text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text


def _decimal(value: Json) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise Mismatch(f"expected a number, got {_kind_of(value)}")
    try:
        return Decimal(str(value))
    except ArithmeticError:
        raise Mismatch(f"expected a number, got {json.dumps(value)}") from None


_SIMPLE: dict[Any, Shape] = {
    Any: Shape({}),
    object: Shape({}),
    None: Shape({"type": "null"}, accepts=lambda value: value is None),
    type(None): Shape({"type": "null"}, accepts=lambda value: value is None),
    bool: Shape({"type": "boolean"}, accepts=lambda value: isinstance(value, bool)),
    datetime: _parsed(
        {"format": "date-time"}, datetime, lambda text: datetime.fromisoformat(_with_zone(text)), datetime.isoformat
    ),
    date: _parsed({"format": "date"}, date, lambda text: date.fromisoformat(text), date.isoformat),
    time: _parsed({"format": "time"}, time, lambda text: time.fromisoformat(_with_zone(text)), time.isoformat),
    UUID: _parsed({"format": "uuid"}, UUID, UUID, str),
    Path: _parsed({}, Path, Path, str),
    bytes: _parsed(
        {"contentEncoding": "base64"},
        bytes,
        lambda text: base64.b64decode(text, validate=True),
        lambda value: base64.b64encode(value).decode(),
    ),
    Decimal: Shape(
        {"anyOf": [{"type": "number"}, {"type": "string"}]}, _decimal, str, lambda value: isinstance(value, Decimal)
    ),
    timedelta: Shape(
        {"type": "number", "description": "seconds"},
        lambda value: timedelta(seconds=_number(value)),
        timedelta.total_seconds,
        lambda value: isinstance(value, timedelta),
    ),
    str: Shape({"type": "string"}, _text, None, lambda value: isinstance(value, str)),
    int: Shape({"type": "integer"}, _whole, None, lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: Shape(
        {"type": "number"}, _number, None, lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    ),
}


def _is_marker(origin: Any, *names: str) -> bool:
    """Whether it is `Required`, `NotRequired` or `ReadOnly`, of `typing` or of `typing_extensions`."""
    return getattr(origin, "_name", None) in (names or ("Required", "NotRequired", "ReadOnly"))


def is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
