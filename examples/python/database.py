"""Tools over SQLite: what a program changes is committed if the program succeeds, and rolled back if it fails.

The statements are part of the tools. A program passes values, and never SQL. A transaction belongs to a connection: programs
that run at the same time need several.
"""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any, TypedDict

import execbox

SCHEMA = """
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stock INTEGER NOT NULL CHECK (stock >= 0));
INSERT INTO products VALUES (1, 'Ridge 2 tent', 4), (2, 'Ember stove', 1), (3, 'Drift mat', 12);
CREATE TABLE parcels (order_id TEXT NOT NULL, product_id INTEGER NOT NULL REFERENCES products, count INTEGER NOT NULL);
"""

PACK = """
for (const [product, count] of LINES) await shop.pack({ order: "A-7", product, count });
console.log("packed");
"""
STOCK = 'const all = await shop.find_products({}); all.map(({ name, stock }) => name + ": " + stock)'


class Product(TypedDict):
    id: int
    name: str
    stock: int


def tools_over(database: sqlite3.Connection) -> execbox.Tools:
    async def find_products(name: str = "", limit: int = 50) -> list[Product]:
        """Finds products whose names contain a text.

        Args:
            limit: At most 1000.
        """
        statement = "SELECT id, name, stock FROM products WHERE instr(name, ?) ORDER BY id LIMIT ?"
        rows = database.execute(statement, (name, max(0, min(limit, 1000))))
        return [{"id": id, "name": name, "stock": stock} for id, name, stock in rows]

    @execbox.tool(effect="additive")
    async def pack(order: str, product: int, count: int) -> None:
        """Takes a product from the stock, and adds it to the parcel of an order."""
        if count < 1:
            raise execbox.InvalidInput("count must be at least 1")
        try:
            taken = database.execute("UPDATE products SET stock = stock - ? WHERE id = ?", (count, product))
        except sqlite3.IntegrityError:
            raise execbox.ToolError(f"there are fewer than {count} of product {product}") from None
        if taken.rowcount == 0:
            raise execbox.InvalidInput(f"there is no product {product}")
        database.execute("INSERT INTO parcels VALUES (?, ?, ?)", (order, product, count))

    return {"shop": [find_products, pack]}


async def run(box: execbox.Executor, database: sqlite3.Connection, code: str) -> Any:
    """Runs a program in a transaction: what is raised rolls it back."""
    with database:
        result = await box.run(code, tools=tools_over(database), timeout=60)
        return result.raise_for_error().value


async def main() -> None:
    async with execbox.Executor() as box:
        with closing(sqlite3.connect(":memory:")) as database:
            database.executescript(SCHEMA)
            for lines in ["[[1, 2], [2, 3]]", "[[1, 2], [2, 1]]", '[["1; DROP TABLE products", 1]]']:
                try:
                    await run(box, database, PACK.replace("LINES", lines))
                    print("committed:", lines)
                except execbox.ProgramError as error:
                    print("rolled back:", error)
                print(await run(box, database, STOCK))


asyncio.run(main())
