"""The input and output of a function, from its type hints and its docstring.

Functions whose hints have a type of pydantic are read by pydantic, others by `_shapes`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, get_args

from ._docstrings import read as read_docstring
from ._shapes import Json, Mismatch, Reader, Schema, is_json


@dataclasses.dataclass(frozen=True)
class Signature:
    """The input and output of a function, as a tool."""

    description: str
    input_schema: Schema
    output_schema: Schema | None
    bind: Callable[[Json], tuple[list[Any], dict[str, Any]]]
    """The arguments of a call with an input. Fails with `Mismatch`."""
    dump: Callable[[Any], Json] | None
    """A result as JSON. `None`: without hints, it is written as it is."""
    context: str | None
    """The parameter that gets the call itself."""


def signature(function: Callable[..., Any], context_type: type) -> Signature:
    """Reads the signature of a function. Fails with `TypeError` if a parameter cannot be a member of an object of JSON."""
    name = getattr(function, "__name__", repr(function))
    try:
        parameters = inspect.signature(function).parameters
        hints = _hints(function)
    except (NameError, ValueError) as error:
        raise TypeError(
            f"the annotations of {name} cannot be read: {error}; define their types in the module, or give schemas"
        ) from None
    context = next((key for key, hint in hints.items() if hint is context_type and key != "return"), None)
    fields = {key: parameter for key, parameter in parameters.items() if key != context}
    for key, parameter in fields.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(f"{name}(*{key}) cannot be a tool: a program passes arguments by name; take a list")
    description, descriptions = read_docstring(function.__doc__)
    reader = _PydanticReader() if any(_is_pydantic(hint) for hint in hints.values()) else Reader(name)
    input_schema, load = reader.input(fields, hints)
    properties = input_schema.setdefault("properties", {})
    for key, text in descriptions.items():
        if isinstance(properties.get(key), dict):
            properties[key].setdefault("description", text)
    for key, parameter in fields.items():
        if parameter.default is not parameter.empty and key in properties and is_json(parameter.default):
            properties[key].setdefault("default", parameter.default)
    output_schema, dump = reader.output(hints.get("return", Any))
    return Signature(description, input_schema, output_schema, _binder(fields, load), dump, context)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target: Any = function.func if isinstance(function, functools.partial) else function
    if not inspect.isroutine(target):
        target = type(target).__call__
    return typing.get_type_hints(inspect.unwrap(target), include_extras=True)


def _binder(
    fields: dict[str, inspect.Parameter], load: Callable[[Json], dict[str, Any]]
) -> Callable[[Json], tuple[list[Any], dict[str, Any]]]:
    positional = [key for key, field in fields.items() if field.kind is field.POSITIONAL_ONLY]
    if not positional:
        return lambda value: ([], load(value))

    def bind(value: Json) -> tuple[list[Any], dict[str, Any]]:
        arguments = load(value)
        given = []
        for key in positional:
            if key not in arguments:
                break
            given.append(arguments.pop(key))
        return given, arguments

    return bind


def _is_pydantic(hint: Any) -> bool:
    """Whether a hint has a type or an annotation of pydantic."""
    rest = [hint]
    while rest:
        each = rest.pop()
        if hasattr(each, "__pydantic_core_schema__") or hasattr(each, "__get_pydantic_core_schema__"):
            return True
        if type(each).__module__.partition(".")[0] in ("pydantic", "annotated_types"):
            return True
        rest.extend(get_args(each))
        rest.extend(getattr(each, "__metadata__", ()))
    return False


class _PydanticReader:
    """Reads the hints of one function with pydantic."""

    def input(
        self, fields: dict[str, inspect.Parameter], hints: dict[str, Any]
    ) -> tuple[Schema, Callable[[Json], dict[str, Any]]]:
        from pydantic import ConfigDict, TypeAdapter, ValidationError
        from typing_extensions import NotRequired, TypedDict

        members = {}
        has_rest = any(field.kind is field.VAR_KEYWORD for field in fields.values())
        for key, field in fields.items():
            if field.kind is not field.VAR_KEYWORD:
                hint = hints.get(key, Any)
                members[key] = hint if field.default is field.empty else NotRequired[hint]
        make: Any = TypedDict  # the checkers know only literal members
        kind = make("Input", members)
        kind.__pydantic_config__ = ConfigDict(extra="allow" if has_rest else "forbid")
        adapter = TypeAdapter(kind)
        schema = adapter.json_schema()
        schema.pop("title", None)
        for member in schema.get("properties", {}).values():
            member.pop("title", None)

        def load(value: Json) -> dict[str, Any]:
            try:
                return dict(adapter.validate_python({} if value is None else value))
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                raise Mismatch(
                    first["msg"], "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])
                ) from None

        return schema, load

    def output(self, hint: Any) -> tuple[Schema | None, Callable[[Any], Json] | None]:
        from pydantic import TypeAdapter

        if hint in (Any, object):
            return None, None
        adapter = TypeAdapter(hint)
        schema = adapter.json_schema(mode="serialization")
        schema.pop("title", None)
        return schema, lambda value: adapter.dump_python(value, mode="json", by_alias=True)
