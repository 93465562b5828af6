"""Type hints to JSON Schemas and back. What a hint reads and writes is compared with pydantic, its schema with jsonschema."""

import dataclasses
import enum
import inspect
import json
import typing
import unittest
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union
from uuid import UUID

import jsonschema
import pydantic
import support  # noqa: F401
import typing_extensions

from execbox._docstrings import read as read_docstring
from execbox._hints import signature
from execbox._shapes import Mismatch, Reader
from execbox._tools import Call

UserId = NewType("UserId", int)
Item = TypeVar("Item")
Alias = typing_extensions.TypeAliasType("Alias", list[int])


class Color(str, enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Node:
    name: str
    children: "list[Node]" = dataclasses.field(default_factory=list)
    weight: float = 1.0


class Filter(typing_extensions.TypedDict, total=False):
    text: typing_extensions.Required[str]
    limit: int


class Late(typing_extensions.TypedDict):
    id: int
    note: typing_extensions.NotRequired[str]


class Standard(TypedDict):
    id: int
    note: "typing_extensions.NotRequired[str]"


class Point(NamedTuple):
    x: int
    y: Optional[int] = None


@dataclasses.dataclass
class Box(Generic[Item]):
    item: Any


HINTS: list[Any] = [
    *(str, int, float, bool, None, Any, UserId, Alias, Color, Level, date, datetime, time, UUID, Path, Decimal),
    *(
        list,
        dict,
        tuple,
        list[int],
        list[list[str]],
        dict[str, int],
        dict[Color, date],
        Mapping[str, Any],
        Sequence[Node],
    ),
    *(tuple[int, str], tuple[int, ...], set[int], frozenset[str], Optional[int], Union[int, str], int | str | None),
    *(list[date | None], Union[date, int], Union[Node, str], Union[list[int], dict[str, int]], Literal["a", 1, None]),
    *(
        Node,
        Filter,
        Late,
        Point,
        Box[int],
        Annotated[str, "A text"],
        list[Annotated[Point, "A point"]],
        Union[Color, int],
    ),
]

VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, 1.0, 1.5, "", "a", "b", "red", "blue", "2026-01-31", "12:30:00", [], {}),
    *(
        "2026-01-31T12:30:00Z",
        "2026-01-31T12:30:00+02:00",
        "00000000-0000-0000-0000-000000000001",
        "a/b",
        [1],
        [1, 2],
        ["a"],
    ),
    *(
        [1, "a"],
        [[1]],
        [["a"]],
        ["2026-01-31", None],
        {"a": 1},
        {"red": "2026-01-31"},
        {"x": 1},
        {"x": 1, "y": 2},
        {"x": "a"},
    ),
    *(
        {"text": "a"},
        {"text": "a", "limit": 1},
        {"limit": 1},
        {"id": 1},
        {"id": 1, "note": "a"},
        [{"x": 1}],
        {"item": 1},
    ),
    *(
        {"name": "a"},
        {"name": "a", "children": [{"name": "b", "weight": 2}]},
        {"name": "a", "children": [1]},
        [{"name": "a"}],
    ),
]


class Hints(unittest.TestCase):
    def test_what_the_schema_accepts_is_read_as_pydantic_reads_it(self) -> None:
        compared = 0
        for hint in HINTS:
            reader = Reader("f")
            shape = reader.shape(hint)
            schema = reader._with_definitions(shape.schema)
            jsonschema.Draft202012Validator.check_schema(schema)
            validator = jsonschema.Draft202012Validator(schema)
            for value in VALUES:
                with self.subTest(hint=hint, value=value):
                    compared += self.check(hint, shape, validator.is_valid(value), value)
        self.assertGreater(compared, 250)

    def check(self, hint: Any, shape: Any, is_valid: bool, value: Any) -> bool:
        """Compares one value. Returns whether it is one of the type."""
        copy = json.loads(json.dumps(value))
        try:
            read = shape.load(copy) if shape.load else copy
            is_read = True
        except Mismatch:
            is_read = False
        if not is_valid:
            return False  # the service refuses it before
        config = pydantic.ConfigDict(extra="forbid")
        try:
            expected = adapter(hint, config).validate_python(value)
        except pydantic.ValidationError:
            self.assertFalse(is_read and shape.load is not None, "pydantic refuses it")
            return False
        if not is_read:  # by its rules for values that are not quite of the type
            with self.assertRaises(pydantic.ValidationError):
                adapter(hint, config).validate_json(json.dumps(value), strict=True)
            return False
        self.assertEqual((read, type(read)), (expected, type(expected)))
        # What is written is JSON, and is read as the same again.
        written = json.loads(json.dumps(shape.dump(read) if shape.dump else read))
        self.assertEqual(shape.load(written) if shape.load else written, expected)
        return True

    def test_typed_dictionaries_of_the_standard_library(self) -> None:
        shape = Reader("f").shape(Standard)
        self.assertEqual((shape.schema["required"], list(shape.schema["properties"])), (["id"], ["id", "note"]))
        assert shape.dump is not None
        self.assertEqual(shape.dump({"id": 1, "more": 2}), {"id": 1})

    def test_types_without_a_schema_are_refused(self) -> None:
        class Plain:
            pass

        for hint in (Plain, typing.Callable[[], int], type, list[Plain], dict[int, str], Iterable[Plain], complex, "x"):
            with self.subTest(hint), self.assertRaisesRegex(TypeError, "has no JSON Schema"):
                Reader("f").shape(hint)

    def test_a_type_that_refers_to_itself_is_defined_once(self) -> None:
        async def move(node: Node, to: Node) -> Node: ...

        read = signature(move, Call)
        self.assertEqual(list(read.input_schema["$defs"]), ["Node"])
        self.assertEqual(read.input_schema["properties"]["node"], {"$ref": "#/$defs/Node"})
        arguments, named = read.bind({"node": {"name": "a", "children": [{"name": "b"}]}, "to": {"name": "c"}})
        self.assertEqual((arguments, named["node"].children[0]), ([], Node("b")))

    def test_types_that_are_mentioned_often_are_read_once(self) -> None:
        kind: Any = int
        for depth in range(60):
            kind = dataclasses.make_dataclass(f"Level{depth}", [("left", kind), ("right", kind)])
        reader = Reader("f")
        schema = reader._with_definitions(reader.shape(kind).schema)
        self.assertLess(len(json.dumps(schema)), 1_000_000)
        jsonschema.Draft202012Validator.check_schema(schema)

    def test_a_result_has_all_its_members(self) -> None:
        @dataclasses.dataclass
        class Row:
            id: int
            note: str = ""
            total: int = dataclasses.field(init=False, default=7)

        async def add(row: Row) -> Row: ...

        read = signature(add, Call)
        self.assertEqual(read.input_schema["properties"]["row"]["required"], ["id"])
        assert read.output_schema is not None and read.dump is not None
        self.assertEqual(read.output_schema["required"], ["id", "note", "total"])
        self.assertNotIn("default", read.output_schema["properties"]["note"])
        _, named = read.bind({"row": {"id": 1}})
        self.assertEqual(read.dump(named["row"]), {"id": 1, "note": "", "total": 7})

    def test_a_function_is_read_once_for_all(self) -> None:
        async def search(
            text: str, limit: Annotated[int, "How many"] = 10, /, *, flags: Optional[set[str]] = None
        ) -> int:
            """Searches.

            :param text: What to
                look for.
            :returns: nothing of interest
            """
            return 0

        read = signature(search, Call)
        self.assertEqual(
            read.input_schema,
            {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "What to look for."},
                    "limit": {"type": "integer", "description": "How many", "default": 10},
                    "flags": {
                        "anyOf": [
                            {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
                            {"type": "null"},
                        ],
                        "default": None,
                    },
                },
                "required": ["text"],
                "additionalProperties": False,
            },
        )
        self.assertEqual((read.output_schema, read.description), ({"type": "integer"}, "Searches."))
        self.assertEqual(read.bind({"text": "a", "flags": ["x"]}), (["a"], {"flags": {"x"}}))

    def test_annotations_that_cannot_be_read_are_explained(self) -> None:
        async def broken(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with self.assertRaisesRegex(
            TypeError, "the annotations of broken cannot be read: name 'Nowhere' is not defined"
        ):
            signature(broken, Call)


def adapter(hint: Any, config: pydantic.ConfigDict) -> pydantic.TypeAdapter[Any]:
    """pydantic's reader of a hint. Classes have a configuration of their own."""
    kind = typing.get_origin(hint) or hint
    is_class = inspect.isclass(kind) and (dataclasses.is_dataclass(kind) or hasattr(kind, "__required_keys__"))
    if is_class:
        kind.__pydantic_config__ = config
    try:
        return pydantic.TypeAdapter(hint)
    finally:
        if is_class:
            del kind.__pydantic_config__


class Docstrings(unittest.TestCase):
    def test_the_styles(self) -> None:
        for docstring in [
            """Finds orders.

            More about it.

            Args:
                status: Which
                    orders.
                limit (int, optional): How many.
                **more: The rest.

            Returns:
                The orders: all.

            Raises:
                ValueError: never
            """,
            """Finds orders.

            More about it.

            Parameters
            ----------
            status : str
                Which
                orders.
            limit : int, optional
                How many.
            more
                The rest.

            Returns
            -------
            list
                The orders.
            """,
            """Finds orders.

            More about it.

            :param str status: Which
                orders.
            :param limit: How many.
            :type limit: int
            :param more: The rest.
            :return: The orders.
            """,
        ]:
            description, parameters = read_docstring(docstring)
            self.assertEqual(description, "Finds orders.\n\nMore about it.")
            self.assertEqual(parameters, {"status": "Which orders.", "limit": "How many.", "more": "The rest."})

    def test_other_texts_stay_as_they_are(self) -> None:
        for text in [
            "One line: with a colon.",
            "Two lines.\nNote that x: 1.",
            "Steps:\n\n1. a: b\n2. c",
            "Uses `Args:` inside.",
        ]:
            self.assertEqual(read_docstring(text), (text, {}))
        self.assertEqual(read_docstring(None), ("", {}))


if __name__ == "__main__":
    unittest.main()
