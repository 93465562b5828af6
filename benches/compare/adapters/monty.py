"""pydantic-monty: an interpreter of a subset of Python in a pool of worker processes. Programs are the `.py` files.

Each program has a session of its own, whose state its worker drops afterwards.
"""

from importlib.metadata import version

import pydantic_monty


class Adapter:
    version = version('pydantic-monty')

    async def start(self):
        self.pool = pydantic_monty.AsyncMonty(max_processes=16)
        await self.pool.__aenter__()

    async def run(self, source, tools, limits):
        seconds = limits['timeoutMs'] / 1000
        allowed = {
            'max_feed_duration_secs': seconds,
            'max_memory': limits['memoryBytes'],
            'max_suspensions': 2100,
        }
        async with self.pool.checkout(limits=allowed) as session:
            return await session.feed_run(source, external_lookup=tools)

    async def stop(self):
        await self.pool.__aexit__(None, None, None)
