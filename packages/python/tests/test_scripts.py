"""`run`: results, errors, limits, tools, policies and events."""

import asyncio
import contextvars
import dataclasses
import threading
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

from support import ExecutorTest

import execbox
from execbox import events


async def echo(value: Any) -> Any:
    return value


class Results(ExecutorTest):
    async def test_the_value_of_the_last_expression_is_the_result(self) -> None:
        result = await self.box.run("console.log('hello'); ({ a: [1, 'é', null] })")
        self.assertTrue(result.ok)
        self.assertEqual(result.value, {"a": [1, "é", None]})
        self.assertEqual(result.logs, ["hello"])
        self.assertIsNone(result.error)
        self.assertEqual(result.usage.calls, 0)
        self.assertGreater(result.duration_ms, 0)
        self.assertIsNone((await self.box.run("undefined")).value)

    async def test_a_failed_program_is_a_result_with_an_error(self) -> None:
        result = await self.box.run("const f = () => null.x;\nf()")
        assert result.error is not None
        self.assertEqual((result.error.code, result.error.name), ("runtime_error", "TypeError"))
        self.assertEqual(result.error.position, (1, 22))
        self.assertEqual(result.error.stack[0].function, "f")
        self.assertEqual(result.error.cause, {"kind": "property_of_nothing", "path": []})
        self.assertEqual(
            str(result.error), "runtime_error: TypeError: cannot read property 'x' of null (line 1, column 22)"
        )
        with self.assertRaises(execbox.ProgramError) as raised:
            result.raise_for_error()
        self.assertIs(raised.exception, result.error)

    async def test_limits_stop_a_program(self) -> None:
        for options, cause in [
            ({"timeout": 0.05}, "timeoutMs"),
            ({"timeout": timedelta(milliseconds=50)}, "timeoutMs"),
            ({"limits": {"cpu_time_ms": 20}}, "cpuTimeMs"),
        ]:
            error = (await self.box.run("for (;;);", **options)).error
            self.assertEqual((error.code, error.cause["limit"]), ("timeout", cause))
        error = (
            await self.box.run("const all = []; for (;;) all.push('x'.repeat(1e5) + all.length)", memory="8MiB")
        ).error
        self.assertEqual(error.code, "memory_limit")

    async def test_options_that_are_wrong_are_explained(self) -> None:
        for options, message in [
            ({"timeuot": 1}, "run() has no option 'timeuot'; did you mean timeout?"),
            ({"memory": "64 megs"}, "invalid size '64 megs': expected a number and a unit, such as '64MiB' or '1GB'"),
            ({"timeout": -1}, "invalid timeout -1: expected seconds, at least 0"),
            ({"timeout": "5s"}, "invalid timeout '5s': expected seconds, or a timedelta"),
            ({"limits": {"calls": 1}}, "unknown limit `calls`"),
            (
                {"tools": {"shop": echo}},
                "the tools of 'shop' must be a list of functions and tools, or a Provider, not function",
            ),
            ({"tools": {"shop": ["echo"]}}, "'echo' is not a tool: expected a function or a Tool"),
            ({"tools": {"my shop": [echo]}}, "my shop"),
            ({"tools": {"shop": [echo, echo]}}, "echo"),
            ({"policy": [execbox.Rule("ask")]}, "a rule of the policy asks, and run() has no approve to answer"),
            ({"policy": [execbox.Rule("ask")], "approve": None}, "run() has no approve to answer"),
            ({"policy": [("deny",)]}, "a rule of the policy must be a Rule, not tuple"),
            ({"policy": "deny"}, "a rule of the policy must be a Rule, not str"),
            ({"tools": [echo]}, 'tools must be a mapping such as {"shop": [list_orders]}, not list'),
            ({"servers": "github"}, "servers must be a list of namespaces, not str"),
            ({"memory": "2GiB"}, "this service permits at most"),
            ({"servers": ["github"]}, "github"),
        ]:
            with self.subTest(options), self.assertRaises((execbox.ServiceError, TypeError, ValueError)) as raised:
                await self.box.run("1", **options)
            self.assertIn(message, str(raised.exception))
        with self.assertRaises(TypeError):
            await self.box.run(b"1")
        self.assertEqual(await self.value("1 + 1"), 2)

    async def test_options_that_are_none_are_not_set(self) -> None:
        self.assertEqual((await self.box.run("1", **dict.fromkeys(execbox.ScriptOptions.__annotations__))).value, 1)
        result = await self.box.run_code("export default 1", **dict.fromkeys(execbox.CodeOptions.__annotations__))
        self.assertEqual(result.value, 1)
        none = dict.fromkeys(execbox.Options.__annotations__)
        self.assertEqual((await self.box.run("1", **none)).value, 1)

    async def test_a_script_has_what_its_options_give(self) -> None:
        self.assertEqual(await self.value("await lib.twice(4)", functions={"lib": {"twice": "2 * input"}}), 8)
        self.assertEqual(await self.value("[typeof setTimeout, typeof atob]", timers=True), ["function", "function"])
        self.assertEqual(await self.value("[typeof setTimeout, typeof atob]", common_globals=False), ["undefined"] * 2)
        result = await self.box.run("t.echo({ value: 1 }); 2", tools={"t": [echo]}, wait_for_calls=False)
        self.assertEqual(result.unawaited["unanswered"], 1)

    async def test_many_programs_run_at_once(self) -> None:
        async def slow(n: int) -> int:
            await asyncio.sleep(0.05)
            return n

        results = await asyncio.gather(
            *[self.value(f"await t.slow({{ n: {n} }})", tools={"t": [slow]}) for n in range(20)]
        )
        self.assertEqual(results, list(range(20)))


class Order(TypedDict, total=False):
    id: str
    total: float


@dataclasses.dataclass
class Address:
    street: str
    tags: set[str] = dataclasses.field(default_factory=set)


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Point(NamedTuple):
    x: int
    y: int = 0


class Tools(ExecutorTest):
    async def test_hints_convert_inputs_and_results(self) -> None:
        given: dict[str, Any] = {}

        async def book(
            at: datetime,
            address: Address,
            level: Level,
            point: Point,
            price: Decimal,
            id: UUID,
            where: Path,
            pair: tuple[int, str],
            kind: Literal["a", "b"],
            note: Annotated[str | None, "A note"] = None,
            data: bytes = b"",
            wait: timedelta = timedelta(0),
            either: int | Address | None = None,
            **more: int,
        ) -> dict[str, Address]:
            given.update(locals())
            return {"home": address}

        code = """await t.book({
            at: '1970-01-01T00:00:00.000Z', address: { street: 'Main', tags: ['x', 'y'] }, level: 'high', point: { x: 1 },
            price: '1.10',
            id: '00000000-0000-0000-0000-000000000001', where: 'a/b', pair: [1, 'x'], kind: 'a', data: 'AQI=', wait: 1.5,
            either: { street: 'Side' }, extra: 3 })"""
        value = await self.value(code, tools={"t": [book]})
        self.assertEqual(value["home"]["street"], "Main")
        self.assertEqual(sorted(value["home"]["tags"]), ["x", "y"])
        self.assertEqual(given["at"], datetime(1970, 1, 1, tzinfo=timezone.utc))
        self.assertEqual(given["address"], Address("Main", {"x", "y"}))
        self.assertEqual((given["level"], given["point"], given["price"]), (Level.HIGH, Point(1), Decimal("1.10")))
        self.assertEqual((given["id"], given["where"], given["pair"]), (UUID(int=1), Path("a/b"), (1, "x")))
        self.assertEqual((given["kind"], given["note"], given["data"]), ("a", None, b"\x01\x02"))
        self.assertEqual((given["wait"], given["either"]), (timedelta(seconds=1.5), Address("Side")))
        self.assertEqual(given["more"], {"extra": 3})

    async def test_an_input_that_does_not_match_is_a_validation_error(self) -> None:
        async def at(when: datetime) -> str:
            return when.isoformat()

        for code in [
            "t.at({ when: 1 })",
            "t.at({})",
            "t.at({ when: 'soon' })",
            "t.at({ when: '2026-01-01T00:00:00Z', more: 1 })",
        ]:
            error = (await self.box.run(f"await {code}", tools={"t": [at]})).error
            self.assertEqual(error.code, "validation_error", code)

    async def test_results_without_hints_are_json(self) -> None:
        async def rows():
            return [
                {
                    "at": datetime(2026, 1, 1),
                    "price": Decimal("1.10"),
                    "id": UUID(int=1),
                    "path": Path("a"),
                    "data": b"\1",
                },
                Address("Main"),
                Level.LOW,
                {1, 2},
                (n for n in range(2)),
            ]

        self.assertEqual(
            await self.value("await t.rows()", tools={"t": [rows]}),
            [
                {"at": "2026-01-01T00:00:00", "price": "1.10", "id": str(UUID(int=1)), "path": "a", "data": "AQ=="},
                {"street": "Main", "tags": []},
                "low",
                [1, 2],
                [0, 1],
            ],
        )

    async def test_results_that_are_not_json_fail_their_calls(self) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        cyclic: list[Any] = []
        cyclic.append(cyclic)
        for value, message in [
            (object(), "object is not supported"),
            (float("nan"), "not JSON compliant"),
            ({(1, 2): 3}, "keys must be"),
            (cyclic, "Circular reference"),
            (deep, "recursion"),
            ("x" * (17 << 20), "a message of 17 MiB is too long"),
        ]:

            async def tool() -> Any:
                return value  # noqa: B023

            error = (await self.box.run("await t.tool()", tools={"t": [tool]})).error
            self.assertEqual(error.code, "tool_error")
            self.assertIn(message, error.message)

        async def wrong() -> Address:
            return None  # type: ignore[return-value]

        error = (await self.box.run("await t.wrong()", tools={"t": [wrong]})).error
        self.assertIn("wrong has returned what is not JSON", error.message)

    async def test_exceptions_cross_as_messages(self) -> None:
        cause = ValueError("no such order")

        async def fail(how: str) -> None:
            raise {"value": cause, "key": KeyError("A-7"), "tool": execbox.ToolError("closed"), "none": OSError()}[how]

        messages = """const all = [];
            for (const how of ['value', 'key', 'tool', 'none'])
                try { await t.fail({ how }) } catch (error) { all.push(error.message) }
            all"""
        self.assertEqual(
            await self.value(messages, tools={"t": [fail]}), ["no such order", "KeyError: 'A-7'", "closed", "OSError"]
        )
        error = (await self.box.run("await t.fail({ how: 'value' })", tools={"t": [fail]})).error
        self.assertEqual((error.code, error.message), ("tool_error", "no such order"))
        self.assertIs(error.__cause__, cause)
        self.assertNotIn(__file__, repr(vars(error)))

        class Odd(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        async def odd() -> None:
            raise Odd

        self.assertEqual((await self.box.run("await t.odd()", tools={"t": [odd]})).error.message, "Odd")

        async def correct() -> None:
            raise execbox.InvalidInput("a later date, please")

        error = (await self.box.run("await t.correct()", tools={"t": [correct]})).error
        self.assertEqual((error.code, error.message), ("validation_error", "a later date, please"))

    async def test_synchronous_tools_run_in_threads(self) -> None:
        barrier = threading.Barrier(2, timeout=10)

        def meet(n: int) -> int:
            barrier.wait()
            return n

        def fail() -> None:
            raise StopIteration

        code = "await Promise.all([t.meet({ n: 1 }), t.meet({ n: 2 })])"
        self.assertEqual(await self.value(code, tools={"t": [meet]}), [1, 2])
        error = (await self.box.run("await t.fail()", tools={"t": [fail]})).error
        self.assertEqual(error.code, "tool_error")

    async def test_tools_see_the_context_of_their_caller(self) -> None:
        user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

        async def name() -> str:
            return user.get()

        def name_in_thread() -> str:
            return user.get()

        async def run(who: str) -> Any:
            user.set(who)
            return await self.value("[await t.name(), await t.name_in_thread()]", tools={"t": [name, name_in_thread]})

        self.assertEqual(await asyncio.gather(run("ann"), run("bob")), [["ann"] * 2, ["bob"] * 2])

    async def test_tools_of_all_kinds(self) -> None:
        class Shop:
            def __init__(self, factor: int) -> None:
                self.factor = factor

            async def price(self, n: int) -> int:
                return n * self.factor

            def __call__(self, n: int) -> int:
                return n + self.factor

        async def positional(a: int, /, b: int = 2) -> list[int]:
            return [a, b]

        async def of_schema(input: Any) -> Any:
            return [input]

        async def two(a: int, b: int) -> int:
            return a * b

        tools = [
            Shop(2).price,
            execbox.Tool.of(Shop(3), name="called"),
            positional,
            execbox.Tool.of(partial(two, b=10), name="ten"),
            execbox.Tool("any-thing", of_schema, input_schema={"type": "array"}),
            execbox.Tool.of(lambda n: n, name="anonymous"),
        ]
        code = """[await t.price({ n: 2 }), await t.called({ n: 1 }), await t.positional({ a: 1 }), await t.ten({ a: 2 }),
                  await t.any_thing([1]), await t.anonymous({ n: 5 })]"""
        self.assertEqual(await self.value(code, tools={"t": tools}), [4, 4, [1, 2], 20, [[1]], 5])

    async def test_functions_that_cannot_be_tools_are_explained(self) -> None:
        async def many(*ids: int) -> None: ...

        async def unknown(db: threading.Thread) -> None: ...

        async def stream():
            yield 1

        for function, message in [
            (many, "many(*ids) cannot be a tool: a program passes arguments by name; take a list"),
            (unknown, "the parameter db of unknown has the type Thread, which has no JSON Schema"),
            (stream, "stream is a generator; a tool returns one value, such as a list"),
        ]:
            with self.assertRaises(TypeError) as raised:
                await self.box.run("1", tools={"t": [function]})
            self.assertIn(message, str(raised.exception))

    async def test_what_a_decorator_says(self) -> None:
        @execbox.tool(name="list", description="All of it", effect="read_only")
        async def everything() -> list[int]:
            """Not this."""
            return [1]

        types = await self.box.types({"t": [everything]})
        self.assertIn("All of it", types)
        self.assertEqual(await self.value("await t.list()", tools={"t": [everything]}), [1])
        self.assertEqual(await everything(), [1])

    async def test_a_tool_reports_progress(self) -> None:
        seen: list[execbox.Event] = []

        async def write_rows(rows: int, call: execbox.Call) -> str:
            call.report_progress(rows / 2, rows, "half")
            return f"{call.provider}.{call.tool} {call.number}"

        code = "await t.write_rows({ rows: 4 })"
        value = await self.value(code, tools={"t": [write_rows]}, on_event=seen.append, events=["call_progress"])
        self.assertEqual(value, "t.write_rows 1")
        self.assertEqual(seen, [events.CallProgress(1, "write_rows", 2.0, 4.0, "half", provider="t")])
        self.assertNotIn("call", await self.box.types({"t": [write_rows]}))

    async def test_providers_are_added_once(self) -> None:
        def fresh() -> Any:
            async def tool(n: int) -> int:
                return n

            return tool

        for n in range(300):
            code = f"await t{n % 2}.tool({{ n: {n} }})"
            self.assertEqual(await self.value(code, tools={f"t{n % 2}": [fresh()]}), n)
        self.assertEqual((await self.box.usage()).providers, 2)
        for n in range(300):
            await self.box.types({f"other{n}": [fresh()]})
        self.assertLessEqual((await self.box.usage()).providers, 257)


class PoliciesAndEvents(ExecutorTest):
    async def test_a_policy_decides_and_asks(self) -> None:
        asked: list[execbox.Question] = []

        @execbox.tool(effect="destructive")
        async def pay(amount: int) -> str:
            return "paid"

        async def approve(question: execbox.Question) -> execbox.Answer | bool:
            asked.append(question)
            return question.input["amount"] < 10 or execbox.Answer("refuse", "too much")

        policy = [execbox.Rule("deny", "t.echo", reason="not now"), execbox.Rule("ask", effect="destructive")]
        options: Any = {"tools": {"t": [pay, echo]}, "policy": policy, "approve": approve}
        self.assertEqual(await self.value("await t.pay({ amount: 5 })", **options), "paid")
        error = (await self.box.run("await t.pay({ amount: 50 })", **options)).error
        self.assertIn("too much", error.message)
        error = (await self.box.run("await t.echo({ value: 1 })", **options)).error
        self.assertIn("not now", error.message)
        self.assertEqual((asked[0].provider, asked[0].tool, asked[0].effect), ("t", "pay", "destructive"))
        self.assertEqual(asked[0].lines, ["1: await t.pay({ amount: 5 })"])

    async def test_a_policy_can_be_an_iterator(self) -> None:
        rules = (execbox.Rule("deny", pattern) for pattern in ["t.*"])
        error = (await self.box.run("await t.echo({ value: 1 })", tools={"t": [echo]}, policy=rules)).error
        self.assertIn("not allowed", error.message)

    async def test_events_come_in_order(self) -> None:
        seen: list[execbox.Event] = []

        async def on_event(event: execbox.Event) -> None:
            await asyncio.sleep(0)
            seen.append(event)

        await self.box.run("console.warn('a'); await t.echo({ value: 1 })", tools={"t": [echo]}, on_event=on_event)
        kinds = [type(event).__name__ for event in seen]
        self.assertEqual(kinds, ["Accepted", "Started", "Log", "CallBegan", "CallEnded", "Ended"])
        self.assertEqual(seen[2], events.Log("warn", "a"))
        self.assertEqual((seen[4].provider, seen[4].bytes), ("t", 2))

    async def test_what_a_callback_raises_ends_the_execution(self) -> None:
        def fail(_: object) -> bool:
            raise LookupError("mine")

        async def fail_later(_: object) -> bool:
            await asyncio.sleep(0)
            raise LookupError("mine")

        for callback in [fail, fail_later]:
            with self.assertRaisesRegex(LookupError, "mine"):
                await self.box.run(
                    "for (;;) await t.echo({ value: 1 })", tools={"t": [echo]}, on_event=callback, events=["call_began"]
                )
            with self.assertRaisesRegex(LookupError, "mine"):
                await self.box.run(
                    "await t.echo({ value: 1 })", tools={"t": [echo]}, policy=[execbox.Rule("ask")], approve=callback
                )
        with self.assertRaises(TypeError):
            await self.box.run(
                "await t.echo({ value: 1 })", tools={"t": [echo]}, policy=[execbox.Rule("ask")], approve=lambda _: "yes"
            )
        await self.ended()

    async def test_events_that_are_not_read_in_time_are_dropped_and_counted(self) -> None:
        seen = 0

        async def slow(event: execbox.Event) -> None:
            nonlocal seen
            seen += 1
            if seen == 1:
                await asyncio.sleep(0.3)

        result = await self.box.run(
            "for (let n = 0; n < 3000; n++) await t.echo({ value: n })",
            tools={"t": [echo]},
            on_event=slow,
            events=["call_began"],
            timeout=60,
        )
        self.assertTrue(result.ok)
        self.assertEqual(seen + result.dropped_events, 3000)


class Cancellation(ExecutorTest):
    async def test_a_cancelled_task_cancels_its_program_and_its_tools(self) -> None:
        await self.check_cancellation(lambda hang: self.box.run("await t.hang()", tools={"t": [hang]}, timeout=60))

    async def test_a_timeout_of_asyncio_cancels(self) -> None:
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.box.run("for (;;);", timeout=60), 0.1)
        self.assertEqual(await self.value("1 + 1"), 2)

    async def test_tools_end_with_their_program(self) -> None:
        cancelled = asyncio.Event()

        async def hang() -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        error = (await self.box.run("await t.hang()", tools={"t": [hang]}, timeout=0.2)).error
        self.assertEqual(error.code, "timeout")
        await asyncio.wait_for(cancelled.wait(), 10)

    async def test_a_tool_that_is_cancelled_by_itself_fails_its_call(self) -> None:
        async def cancelled() -> None:
            raise asyncio.CancelledError

        error = (await self.box.run("await t.cancelled()", tools={"t": [cancelled]})).error
        self.assertEqual((error.code, error.message), ("tool_error", "the tool was cancelled"))

    async def test_a_tool_needs_a_name(self) -> None:
        for function in (lambda: 1, partial(int)):
            with self.assertRaisesRegex(TypeError, r"has no name; pass one: Tool\.of\(function, name=…\)"):
                await self.box.run("1", tools={"t": [function]})

    async def test_a_control_terminates(self) -> None:
        control = execbox.Control()

        async def stop() -> None:
            control.terminate("enough")
            await asyncio.sleep(3600)

        error = (await self.box.run("await t.stop()", tools={"t": [stop]}, control=control)).error
        self.assertEqual(str(error), "timeout: Execution was cancelled: enough")
        self.assertEqual(error.cause, {"kind": "cancelled", "reason": "enough"})
        control = execbox.Control()
        control.terminate("before it has begun")
        result = await self.box.run_code("report(1); for (;;);", report=True, control=control)
        self.assertEqual(result.status, "terminated")
