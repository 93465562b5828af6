"""`run_code`: values, functions and promises in both directions. JavaScript says what it received."""

import array
import asyncio
import dataclasses
import math
import random
import unittest
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from typing import Any

from support import ExecutorTest

import execbox
from execbox import UNDEFINED, BigInt, ErrorValue, Map, RegExp, Tagged
from execbox._values import decoder, encode

UTC = timezone.utc
KIND = """
const kind = x => x === null ? 'null' : x === undefined ? 'undefined' : typeof x !== 'object' ? `${typeof x} ${String(x)}`
  : `${x.constructor.name} ${x instanceof Date ? x.toISOString() : x instanceof Error ? x.message : x instanceof RegExp ? x
  : ArrayBuffer.isView(x) ? [...x] : x instanceof Map || x instanceof Set ? JSON.stringify([...x]) : JSON.stringify(x)}`;
export default (...values) => values.map(kind);
"""


class Color(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: "Point | None" = None


class Values(ExecutorTest):
    async def returned(self, source: str, **options: Any) -> Any:
        """The result of a module, which succeeds."""
        return (await self.box.run_code(source, **options)).raise_for_error().value

    async def test_what_javascript_receives(self) -> None:
        values = {
            "null": None,
            "undefined": UNDEFINED,
            "boolean true": True,
            "number 7": 7,
            "number 9007199254740991": 2**53 - 1,
            "bigint 9007199254740992": 2**53,
            f"bigint {-(10**400)}": -(10**400),
            "bigint 7": BigInt(7),
            "number 1.5": 1.5,
            "number 1e+300": 1e300,
            "number NaN": math.nan,
            "number -Infinity": -math.inf,
            "string é\U0001f600": "é\U0001f600",
            "string \ufffd": "\ud800",
            "string red": Color.RED,
            "Date 1970-01-01T00:00:00.001Z": datetime(1970, 1, 1, 0, 0, 0, 1999, tzinfo=UTC),
            "Date 2026-01-31T22:00:00.000Z": datetime(2026, 2, 1, tzinfo=timezone(timedelta(hours=2))),
            "Date 1969-12-31T23:59:59.999Z": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "Date 2026-02-01T00:00:00.000Z": date(2026, 2, 1),
            "Uint8Array 1,2": b"\1\2",
            "Uint8Array " + ",".join(["7"] * 300): bytearray(b"\7" * 300),
            "Int16Array 1,-2": array.array("h", [1, -2]),
            "Float64Array 0.5": array.array("d", [0.5]),
            'Array [1,["a"]]': [1, ("a",)],
            'Object {"a":{"$b":1}}': {"a": {"$b": 1}},
            'Object {"x":1,"y":null}': Point(1),
            'Map [[1,"a"],["b",2]]': {1: "a", "b": 2},
            'Map [["a",1]]': Map(a=1),
            "Set [1]": {1},
            "Error no": ValueError("no"),
            "RangeError far": ErrorValue("RangeError", "far"),
            "RegExp /a+/gi": RegExp("a+", "gi"),
        }
        received = await self.returned(KIND, args=list(values.values()))
        for expected, got in zip(values, received):
            if expected == "Error no":
                self.assertIn("no", got)
            else:
                self.assertEqual(got, expected)
        self.assertEqual(await self.returned("export default x => Object.is(x, -0)", args=[-0.0]), True)

    async def test_what_python_receives(self) -> None:
        values: list[tuple[str, Any]] = [
            ("null", None),
            ("undefined", None),
            ("[undefined]", [None]),
            ("7", 7),
            ("2 ** 53 - 1", 2**53 - 1),
            ("2 ** 53", 2.0**53),
            ("1e300", 1e300),
            ("7n", BigInt(7)),
            ("-(10n ** 400n)", BigInt(-(10**400))),
            ("2n ** 4000n", BigInt(2**4000)),
            ("new Date(1)", datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
            ("new Date(-1)", datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
            ("new Date(NaN)", Tagged({"$date": None})),
            ("new Date(8.64e15)", Tagged({"$date": 8640000000000000})),
            ("new Uint8Array([1, 2])", b"\1\2"),
            ("new Uint8Array(300)", bytes(300)),
            ("new Uint8Array([1, 2, 3]).subarray(1)", b"\2\3"),
            ("new Uint8Array([1, 2]).buffer", b"\1\2"),
            ("new Float32Array([0.5])", array.array("f", [0.5])),
            ("new BigInt64Array([-1n])", array.array("q", [-1])),
            ("new Int16Array([1, 2, 3]).subarray(1)", array.array("h", [2, 3])),
            ("[1, , 2]", [1, None, 2]),
            ("new Array(4e9)", Tagged({"$sparse": 4000000000, "items": {}})),
            ("({ $a: 1, $$b: { $map: 2 }, c: 3 })", {"$a": 1, "$$b": {"$map": 2}, "c": 3}),
            ("new Map([[1, 2], ['a', [3]]])", Map({1: 2, "a": [3]})),
            ("new Map([[{}, 1]])", [({}, 1)]),
            ("new Map([[1, 'a'], [true, 'b']])", [(1, "a"), (True, "b")]),
            ("new Set([1, 'a'])", {1, "a"}),
            ("new Set([[1]])", [[1]]),
            ("new Set([1, true])", [1, True]),
            ("/a+/g", RegExp("a+", "g")),
            ("Object(1)", 1),
        ]
        source = f"export default [{', '.join(code for code, _ in values)}]"
        for (code, expected), got in zip(values, await self.returned(source)):
            self.assertEqual((got, type(got)), (expected, type(expected)), code)
        number, zero = await self.returned("export default [NaN, -0]")
        self.assertTrue(math.isnan(number) and math.copysign(1, zero) == -1)
        error = await self.returned("export default new RangeError('far', { cause: 1n })")
        self.assertEqual((str(error), error.cause), ("RangeError: far", 1))

    async def test_objects_stay_shared(self) -> None:
        shared: list[Any] = [1]
        cyclic: dict[str, Any] = {"shared": shared, "again": shared}
        cyclic["self"] = cyclic
        point = Point(1)
        point.y = point
        source = "export default (c, p) => [c.self === c, c.shared === c.again, p.y === p, c, p]"
        *checks, back, back_point = await self.returned(source, args=[cyclic, point])
        self.assertEqual(checks, [True, True, True])
        self.assertIs(back["self"], back)
        self.assertIs(back["shared"], back["again"])
        self.assertIs(back_point["y"], back_point)
        # A reference can come before its object, and a map can be part of itself.
        self.assertEqual(await self.returned("const a = [1]; export default [a, new Map([[1, a]])]"), [[1], {1: [1]}])
        cyclic_map = await self.returned("const m = new Map(); m.set('m', m); export default m")
        self.assertIsInstance(cyclic_map, Tagged)
        same = "export default x => x.get('m') === x"
        self.assertEqual(await self.returned(same, args=[cyclic_map]), True)

    async def test_values_that_cannot_cross_are_explained(self) -> None:
        deep: list[Any] = []
        for _ in range(200):
            deep = [deep]
        for value, message in [
            ({"rows": [1, {"price": 1j}]}, ".rows[1].price: complex is not supported"),
            (timedelta(1), "timedelta is not supported"),
            (deep, "nested deeper than 100 levels"),
            ({1: object()}, "object is not supported"),
        ]:
            with self.assertRaises(execbox.SerializationError) as raised:
                await self.box.run_code("export default 1", args=[value])
            self.assertIn(message, str(raised.exception))

    async def test_what_was_begun_for_values_that_cannot_cross_is_cancelled(self) -> None:
        with self.assertRaises(execbox.SerializationError):
            await self.box.run_code("export default 1", globals={"soon": asyncio.sleep(3600), "bad": object()})
        await asyncio.sleep(0)

    async def test_functions_and_promises(self) -> None:
        def read(path: str) -> bytes:
            if path != "a":
                raise FileNotFoundError(path)
            return b"x" * 300

        async def make(name: str) -> Any:
            async def greet(n: int) -> str:
                return name * n

            return greet

        async def later() -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC)

        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, future.set_result, {1, 2})
        source = """
            import { read, make } from 'files';
            let failed; try { read('b') } catch (error) { failed = `${error.name} ${error.message}` }
            let raised; try { await broken } catch (error) { raised = `${error.name} ${error.message}` }
            export default async () => [read('a').length, failed, raised, await (await make('x'))(3), await soon, await set, read];
        """

        async def broken() -> None:
            raise ValueError("bad")

        value = await self.returned(
            source,
            imports={"files": {"read": read, "make": make}},
            globals={"soon": later(), "set": future, "broken": broken()},
        )
        self.assertEqual(
            value, [300, "FileNotFoundError b", "ValueError bad", "xxx", datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, read]
        )

    async def test_a_promise_of_the_application_goes_on(self) -> None:
        future = asyncio.get_running_loop().create_future()
        ended = asyncio.Event()

        async def coroutine() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        source = "export default async () => { await Promise.all([mine, theirs]) }"
        result = await self.box.run_code(source, globals={"mine": future, "theirs": coroutine()}, timeout=0.1)
        self.assertEqual(result.status, "terminated")
        await asyncio.wait_for(ended.wait(), 10)
        self.assertFalse(future.cancelled())

    async def test_modules_reports_and_logs(self) -> None:
        async def price(n: int) -> int:
            return 7 * n

        seen: list[execbox.Event] = []
        result = await self.box.run_code(
            "import { price } from 'shop'; import { twice } from './twice.ts'; export const main = async (n: number) => "
            "{ report(n); console.warn('n', 1n, new Set([1])); return twice(await price({ n })) }",
            function="main",
            args=[3],
            modules={"./twice.ts": "export const twice = (n: number) => 2 * n"},
            tools={"shop": [price]},
            report=True,
            on_event=seen.append,
            events=["reported", "log"],
        )
        self.assertEqual((result.value, result.status, result.reports), (42, "success", [3]))
        self.assertEqual((result.logs[0].level, result.logs[0].args), ("warn", ["n", 1, {1}]))
        self.assertEqual(seen, [execbox.events.Reported(3), execbox.events.Log("warn", args=["n", 1, {1}])])

    async def test_what_is_passed_together_is_shared(self) -> None:
        seen: list[execbox.Event] = []

        async def same(a: Any, b: Any) -> bool:
            return a is b

        result = await self.box.run_code(
            "const a = [1]; report([a, a]); report(a); console.log([a, a], a, a); export default () => same(a, a)",
            globals={"same": same},
            report=True,
            on_event=seen.append,
            events=["reported", "log"],
        )
        self.assertEqual((result.value, result.reports), (True, [[[1], [1]], [1]]))
        self.assertEqual(result.logs[0].args, [[[1], [1]], [1], [1]])
        self.assertIs(result.logs[0].args[1], result.logs[0].args[2])
        self.assertEqual([event.value for event in seen[:2]], result.reports)
        self.assertEqual(seen[2].args, [[[1], [1]], [1], [1]])

    async def test_errors_of_modules(self) -> None:
        for source, code, name in [
            ("export default () => { throw new TypeError('x') }", "error", "TypeError"),
            ("import 'nothing'", "link_error", None),
            ("const a = []; for (;;) a.push('x'.repeat(1e5) + a.length)", "memory", None),
        ]:
            result = await self.box.run_code(source, memory="8MiB")
            self.assertFalse(result.ok)
            self.assertEqual((result.error.code, result.status), (code, code))
            if name:
                self.assertEqual((result.error.name, result.error.position.line), (name, 1))
        with self.assertRaisesRegex(TypeError, "did you mean globals"):
            await self.box.run_code("1", global_={})

    async def test_a_program_cannot_make_its_result_expensive(self) -> None:
        many = await self.returned(
            "export default new Set(Array.from({ length: 2e4 }, (_, i) => BigInt(i) * (2n ** 61n - 1n)))"
        )
        self.assertEqual((type(many), len(many)), (list, 20_000), "the hashes are the same")
        few = await self.returned("export default new Map([[2n ** 70n, 1]])")
        self.assertEqual(few, {2**70: 1})
        for source in [
            "const b = new ArrayBuffer(1e6); export default Array.from({ length: 3000 }, () => new Uint16Array(b))",
            "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; export default a",
            "export default '\u0001'.repeat(3e6)",
        ]:
            result = await self.box.run_code(source)
            self.assertEqual((result.status, result.error.name), ("error", "SerializationError"), source)

    async def test_random_values_return_as_they_were(self) -> None:
        random.seed(7)
        values = [value(4) for _ in range(300)]
        self.assertEqual(await self.returned("export default x => x", args=[values]), values)


def value(depth: int) -> Any:
    """A random value that is equal to what returns for it."""
    keys = ["a", "$a", "$$", "$map", "__proto__", "", "é"]
    leaves = [
        lambda: None,
        lambda: random.choice([True, False]),
        lambda: random.randrange(-(2**60), 2**60) if random.random() < 0.2 else random.randrange(-100, 100),
        lambda: random.random() * 10 ** random.randrange(-300, 300),
        lambda: "".join(random.choice('ab"\\\n\u2028é\U0001f600$') for _ in range(random.randrange(6))),
        lambda: random.randbytes(random.choice([0, 3, 256, 257, 1000])),
        lambda: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=random.randrange(-6 * 10**13, 6 * 10**13)),
        lambda: BigInt(random.randrange(-(2**3000), 2**3000)),
        lambda: RegExp("a+", "g"),
        lambda: array.array(random.choice("bhiqfd"), [1, -2]),
    ]
    nodes = [
        lambda: [value(depth - 1) for _ in range(random.randrange(4))],
        lambda: {random.choice(keys): value(depth - 1) for _ in range(random.randrange(4))},
        lambda: Map({random.choice(keys): value(depth - 1) for _ in range(random.randrange(4))}),
        lambda: {random.randrange(10) for _ in range(random.randrange(4))},
    ]
    return random.choice(nodes if depth > 0 and random.random() < 0.5 else leaves)()


class Hostile(unittest.TestCase):
    """What a program chooses is read without an exception, or with one of this package."""

    class NoHandles:
        def add_function(self, function: Any) -> int:
            return 1

        def add_promise(self, awaitable: Any) -> int:
            return 1

        def function(self, number: int) -> Any:
            return None

    def test_odd_values_are_read(self) -> None:
        handles = self.NoHandles()
        for json in [
            {"$date": 1e300},
            {"$date": -8640000000000000},
            {"$sparse": 4294967295, "items": {"4294967294": 1}},
            {"$sparse": 3, "items": {"x": 1, "1": 2}},
            {"$function": 4294967295, "kind": "async", "name": ""},
            {"$promise": 1},
            {"$id": 1, "$value": {"$set": [{"$ref": 1}]}},
            {"$id": 1, "$value": {"$error": "E", "cause": {"$ref": 1}}},
            [{"$ref": 1}, {"$id": 1, "$value": [{"$ref": 1}]}],
            {"$view": "DataView", "of": {"$buffer": "AAAA"}, "offset": 1},
            {"$view": "Float16Array", "of": {"$buffer": "AAAA"}, "offset": 0, "length": 1},
            {"$unknown": 1},
        ]:
            decoded = decoder(handles, [])(json)
            encode(decoded, handles, [])


if __name__ == "__main__":
    unittest.main()
