/**
 * Tools over SQLite: what a program changes is committed if the program succeeds, and rolled back if it fails.
 *
 * The statements are part of the tools. A program passes values, and never SQL. A transaction belongs to a connection: programs
 * that run at the same time need several.
 */

import { Executor, InvalidInputError, ToolError, tool } from "execbox";
import sqlite from "node-sqlite3-wasm";
import { z } from "zod";

const SCHEMA = `
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stock INTEGER NOT NULL CHECK (stock >= 0));
INSERT INTO products VALUES (1, 'Ridge 2 tent', 4), (2, 'Ember stove', 1), (3, 'Drift mat', 12);
CREATE TABLE parcels (order_id TEXT NOT NULL, product_id INTEGER NOT NULL REFERENCES products, count INTEGER NOT NULL);
`;

const PACK = `
for (const [product, count] of LINES) await shop.pack({ order: "A-7", product, count });
console.log("packed");
`;
const STOCK = 'const all = await shop.findProducts({}); all.map(({ name, stock }) => name + ": " + stock)';

const database = new sqlite.Database();
database.exec(SCHEMA);

const findProducts = tool({
  description: "Finds products whose names contain a text.",
  inputSchema: z.object({ name: z.string().default(""), limit: z.int().min(1).max(1000).default(50) }),
  outputSchema: z.array(z.object({ id: z.int(), name: z.string(), stock: z.int() })),
  async execute({ name, limit }) {
    const statement = "SELECT id, name, stock FROM products WHERE instr(name, ?) ORDER BY id LIMIT ?";
    return database.all(statement, [name, limit]);
  },
});

const pack = tool({
  description: "Takes a product from the stock, and adds it to the parcel of an order.",
  effect: "additive",
  inputSchema: z.object({ order: z.string(), product: z.int(), count: z.int().min(1) }),
  async execute({ order, product, count }) {
    const stock = database.get("SELECT stock FROM products WHERE id = ?", product)?.stock;
    if (stock === undefined) throw new InvalidInputError(`there is no product ${product}`);
    if (stock < count) throw new ToolError(`there are fewer than ${count} of product ${product}`);
    database.run("UPDATE products SET stock = stock - ? WHERE id = ?", [count, product]);
    database.run("INSERT INTO parcels VALUES (?, ?, ?)", [order, product, count]);
  },
});

/** Runs a program in a transaction: what is thrown rolls it back. */
async function run(code) {
  database.exec("BEGIN");
  try {
    const result = await box.run(code, { tools: { shop: { findProducts, pack } }, timeout: 60_000 });
    const { value } = result.orThrow();
    database.exec("COMMIT");
    return value;
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}

const box = new Executor();
for (const lines of ["[[1, 2], [2, 3]]", "[[1, 2], [2, 1]]", '[["1; DROP TABLE products", 1]]']) {
  try {
    await run(PACK.replace("LINES", lines));
    console.log("committed:", lines);
  } catch (error) {
    console.log("rolled back:", String(error));
  }
  console.log(await run(STOCK));
}
database.close();
