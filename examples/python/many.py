"""Many programs at once: one for each order, and some that loop, fill their memory or fail. None disturbs another.

32 programs run, in a child process each, and the others wait: programs that wait for their calls need no processor, but a place.
"""

import asyncio
import time

import execbox

ORDERS = 1000
TOTAL = "const { total } = await shop.get_order({ id: ID }); const { tax } = await shop.tax_of({ total }); total + tax"
FAILING = ["const all = []; for (;;) all.push(new Uint8Array(1e6))", "null.total"]


async def get_order(id: int) -> dict[str, int]:
    """Returns an order."""
    await asyncio.sleep(0.01)
    return {"total": 4 * id}


async def tax_of(total: int) -> dict[str, int]:
    """Returns the tax on a total."""
    await asyncio.sleep(0.01)
    return {"tax": total // 4}


async def main() -> None:
    tools: execbox.Tools = {"shop": [get_order, tax_of]}
    async with execbox.Executor(max_programs=32) as box:
        started = time.monotonic()
        results = await asyncio.gather(
            *(box.run(TOTAL.replace("ID", str(id)), tools=tools, timeout=60) for id in range(ORDERS)),
            *(box.run(code, timeout=60, memory="16MiB") for code in FAILING),
            box.run("for (;;);", timeout=0.5),
        )
        seconds = time.monotonic() - started
    calls = sum(result.usage.calls for result in results)
    print(f"{len(results)} programs with {calls} calls in {seconds:.1f} s")
    print("the sum of the totals:", sum(result.value for result in results if result.ok))
    for result in results:
        if result.error:
            print(result.error)


asyncio.run(main())
