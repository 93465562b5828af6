"""Hints with types of pydantic, which pydantic reads."""

import dataclasses
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, Field
from support import ExecutorTest


class Line(BaseModel):
    sku: str = Field(pattern="^[A-Z]")
    count: Annotated[int, Field(gt=0)] = 1


class Order(BaseModel):
    id: str = Field(description="The number", alias="orderId")
    lines: list[Line]
    placed: datetime | None = None
    parent: "Order | None" = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclasses.dataclass
class Page:
    orders: list[Order]


class Models(ExecutorTest):
    async def test_models_are_inputs_and_results(self) -> None:
        given: dict[str, Any] = {}

        async def add(order: Order, pet: Cat | Dog, limit: Annotated[int, Field(le=10)] = 5) -> Page:
            """Adds an order.

            Args:
                order: The order.
            """
            given.update(locals())
            return Page([order])

        types = await self.box.types({"t": [add]})
        self.assertIn("orderId: string", types)
        self.assertIn("The order", types)
        code = """await t.add({ order: { orderId: 'A', lines: [{ sku: 'X' }], placed: '2026-01-01T00:00:00Z' },
            pet: { kind: 'dog' } })"""
        value = await self.value(code, tools={"t": [add]})
        self.assertEqual(given["order"].lines, [Line(sku="X", count=1)])
        self.assertEqual(given["order"].placed, datetime(2026, 1, 1, tzinfo=timezone.utc))
        self.assertEqual((given["pet"], given["limit"]), (Dog(kind="dog"), 5))
        self.assertEqual(value["orders"][0]["orderId"], "A")
        self.assertEqual(value["orders"][0]["lines"], [{"sku": "X", "count": 1}])

    async def test_what_pydantic_refuses_is_a_validation_error(self) -> None:
        async def add(order: Order, even: Annotated[int, pydantic.AfterValidator(check_even)] = 0) -> None: ...

        for code in [
            "t.add({ order: { orderId: 'A', lines: [{ sku: 'x' }] } })",
            "t.add({ order: { orderId: 'A', lines: [{ sku: 'X', count: 0 }] } })",
            "t.add({ order: { orderId: 'A', lines: [] }, more: 1 })",
            "t.add({ order: { orderId: 'A', lines: [] }, even: 1 })",
        ]:
            error = (await self.box.run(f"await {code}", tools={"t": [add]})).error
            self.assertEqual(error.code, "validation_error", code)
        self.assertIn(".even: Value error, it is odd", error.message)

    async def test_models_are_values(self) -> None:
        async def untyped():
            return [Line(sku="X")]

        self.assertEqual(await self.value("await t.untyped()", tools={"t": [untyped]}), [{"sku": "X", "count": 1}])
        result = await self.box.run_code("export default x => x", args=[Line(sku="X")])
        self.assertEqual(result.value, {"sku": "X", "count": 1})


def check_even(value: int) -> int:
    if value % 2:
        raise ValueError("it is odd")
    return value
