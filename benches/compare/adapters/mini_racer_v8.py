"""mini-racer: V8 in this process of Python; a fresh isolate for each program. Values cross as JSON texts."""

import asyncio
import json
from importlib.metadata import version

from py_mini_racer import mini_racer


class Adapter:
    version = version('mini-racer')

    async def start(self):
        pass

    async def run(self, source, tools, limits):
        with mini_racer() as context:
            context.set_hard_memory_limit(limits['memoryBytes'])
            async with _Tools(context, tools) as prelude:
                code = f'(async function () {{ {prelude} {source} \n}}).call(globalThis).then(JSON.stringify)'

                async def program():
                    promise = await context.eval_cancelable(code)
                    return json.loads(await promise)

                return await asyncio.wait_for(program(), limits['timeoutMs'] / 1000)

    async def stop(self):
        pass


class _Tools:
    """Installs tools as globals of the guest; gives the text that declares them."""

    def __init__(self, context, tools):
        self.context = context
        self.tools = tools
        self.open = []

    async def __aenter__(self):
        prelude = ''
        scope = self.context.eval('globalThis')
        for name, tool in self.tools.items():

            async def call(text, tool=tool):
                return json.dumps(await tool(json.loads(text)))

            wrapper = self.context.wrap_py_function(call)
            self.open.append(wrapper)
            scope['$' + name] = await wrapper.__aenter__()
            prelude += f'const {name} = async (input) => JSON.parse(await ${name}(JSON.stringify(input)));'
        return prelude

    async def __aexit__(self, *details):
        for wrapper in self.open:
            await wrapper.__aexit__(None, None, None)
