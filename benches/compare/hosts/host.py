"""The process in which a peer for Python runs: hosts/host.mjs in Python.

    python hosts/host.py ADAPTER

Reads commands from standard input and writes replies to file descriptor 3, one JSON object per line.
"""

import asyncio
import importlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'adapters'))


async def echo(value):
    return value


async def produce(count):
    count = int(count)
    return [{'id': i, 'name': f'item {i}', 'values': [i, i * 2, i * 3], 'even': i % 2 == 0} for i in range(count)]


async def consume(rows):
    return len(rows) + rows[-1]['id']


TOOLS = {'echo': echo, 'produce': produce, 'consume': consume}


class Host:
    def __init__(self, name):
        self.module = importlib.import_module(name)
        self.adapter = None

    async def start(self):
        """Makes the peer ready."""
        self.adapter = self.module.Adapter()
        await self.adapter.start()
        return {'version': self.adapter.version, 'pid': os.getpid()}

    async def run(self, source, limits):
        """Runs a program once in a fresh sandbox."""
        started = time.perf_counter()
        try:
            result = await self.adapter.run(source, TOOLS, limits)
            return {'ms': (time.perf_counter() - started) * 1000, 'result': result}
        except Exception as error:
            return {'ms': (time.perf_counter() - started) * 1000, 'error': describe(error)}

    async def count(self, source, limits, seconds):
        """Runs a program again and again, each time in a fresh sandbox."""
        started = time.perf_counter()
        count = 0
        while time.perf_counter() - started < seconds:
            await self.adapter.run(source, TOOLS, limits)
            count += 1
        return {'perSecond': count / (time.perf_counter() - started)}

    async def cold(self, source, limits):
        """The time from nothing to the first result, for peers with a process of their own."""
        another = self.module.Adapter()
        started = time.perf_counter()
        await another.start()
        result = await another.run(source, TOOLS, limits)
        ms = (time.perf_counter() - started) * 1000
        await another.stop()
        return {'ms': ms, 'result': result}

    async def hold(self, source, limits, count):
        """Runs a program in `count` sandboxes at once; replies when all of them wait for their call."""
        self.released = asyncio.Event()
        full = asyncio.Event()
        arrived = 0

        async def wait(value):
            nonlocal arrived
            arrived += 1
            if arrived == count:
                full.set()
            await self.released.wait()
            return value

        tools = {**TOOLS, 'wait': wait}
        self.held = asyncio.gather(*[self.adapter.run(source, tools, limits) for _ in range(count)])
        waiting = asyncio.ensure_future(full.wait())
        await asyncio.wait([waiting, self.held], return_when=asyncio.FIRST_COMPLETED)
        if not full.is_set():
            waiting.cancel()
            await self.held
            raise RuntimeError('the programs did not wait')
        return {}

    async def release(self, **_):
        """Lets the programs of `hold` finish."""
        self.released.set()
        await self.held
        return {}

    async def stop(self, **_):
        if self.adapter:
            await self.adapter.stop()
        return {}


def describe(error):
    return {'label': type(error).__name__, 'message': (str(error).splitlines() or [''])[0][:200]}


def reply(value):
    line = json.dumps(value).encode() + b'\n'
    while line:
        line = line[os.write(3, line) :]


async def main():
    host = Host(sys.argv[1])
    last = longest = 0.0  # the time of the last beat; the longest gap between two of them, during a command
    loop = asyncio.get_running_loop()
    if interval := os.environ.get('PEERS_BEAT'):

        async def beat():
            nonlocal last, longest
            while True:
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
                reply({'beat': True})
                await asyncio.sleep(int(interval) / 1000)

        beating = asyncio.ensure_future(beat())  # kept, so that it is not collected
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        number, command = request.pop('id'), request.pop('command')
        try:
            last, longest = time.perf_counter(), 0.0
            answer = await getattr(host, command)(**request)
            gap = max(longest, time.perf_counter() - last) * 1000
            reply({**answer, 'gapMs': gap, 'id': number})
        except Exception as error:
            reply({'error': describe(error), 'id': number})
        if command == 'stop':
            break
    os._exit(0)


if __name__ == '__main__':
    asyncio.run(main())
