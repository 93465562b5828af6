/**
 * Many programs at once: one for each order, and some that loop, fill their memory or fail. None disturbs another.
 *
 * 32 programs run, in a child process each, and the others wait: programs that wait for their calls need no processor, but a
 * place.
 */

import { setTimeout as sleep } from "node:timers/promises";

import { Executor } from "execbox";

const ORDERS = 1000;
const TOTAL =
  "const { total } = await shop.getOrder({ id: ID }); const { tax } = await shop.taxOf({ total }); total + tax";
const FAILING = ["const all = []; for (;;) all.push(new Uint8Array(1e6))", "null.total"];

const shop = {
  async getOrder({ id }) {
    await sleep(10);
    return { total: 4 * id };
  },
  async taxOf({ total }) {
    await sleep(10);
    return { tax: total / 4 };
  },
};

const box = new Executor({ maxPrograms: 32 });
const started = performance.now();
const results = await Promise.all([
  ...Array.from({ length: ORDERS }, (_, id) =>
    box.run(TOTAL.replace("ID", String(id)), { tools: { shop }, timeout: 60_000 }),
  ),
  ...FAILING.map((code) => box.run(code, { timeout: 60_000, memory: "16MiB" })),
  box.run("for (;;);", { timeout: 500 }),
]);
const seconds = (performance.now() - started) / 1000;

const sum = results.filter(({ ok }) => ok).reduce((sum, { value }) => sum + value, 0);
const calls = results.reduce((sum, { usage }) => sum + usage.calls, 0);
console.log(`${results.length} programs with ${calls} calls in ${seconds.toFixed(1)} s`);
console.log("the sum of the totals:", sum);
for (const { error } of results) if (error) console.log(String(error));
