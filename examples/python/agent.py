"""An agent: a model answers a question with programs that call your functions.

python3 agent.py                 the model is a script: no key, no network
python3 agent.py --model NAME    a model with the chat completions API, at $OPENAI_BASE_URL with $OPENAI_API_KEY
"""

import argparse
import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypedDict

import execbox

Message = dict[str, Any]
Model = Callable[[list[Message], list[dict[str, Any]]], Awaitable[Message]]
"""Answers messages with the next one, which may call tools. Messages and tools are those of the chat completions API."""


class Order(TypedDict):
    id: str
    customer_id: int
    total: float


async def list_orders(status: Literal["open", "shipped"]) -> list[Order]:
    """Lists orders."""
    if status == "shipped":
        return []
    return [
        {"id": "A-7", "customer_id": 1, "total": 60.0},
        {"id": "A-8", "customer_id": 2, "total": 40.0},
        {"id": "A-9", "customer_id": 1, "total": 25.5},
    ]


async def get_customer(id: int) -> dict[str, str]:
    """Returns a customer."""
    return {"name": {1: "Ada Lovelace", 2: "Lin Wei"}[id]}


async def answer(question: str, model: Model) -> str:
    """Asks the model, runs the programs that it writes, and asks again, until it answers with a text."""
    async with execbox.Executor() as box:
        run_code = await box.code_tool({"shop": [list_orders, get_customer]}, timeout=60)
        function = {"name": run_code.name, "description": run_code.description, "parameters": run_code.input_schema}
        messages: list[Message] = [{"role": "user", "content": question}]
        for _ in range(10):
            message = await model(messages, [{"type": "function", "function": function}])
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                text = await run(call["function"]["arguments"], run_code)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        raise RuntimeError("the model has not answered after 10 turns")


async def run(arguments: str, run_code: execbox.CodeTool) -> str:
    """What the model reads after a call of the tool: the result of its program, or what is wrong."""
    try:
        code = str(json.loads(arguments)["code"])
    except (ValueError, LookupError, TypeError):
        return 'The arguments must be a JSON object with the member "code".'
    print(f"--- the model runs\n{code}")
    result = await run_code.run(code)
    print(f"--- and reads\n{result.text}")
    return result.text or ""


async def scripted(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
    """A model that always says the same. Its first program has a mistake, whose message tells it what to correct."""
    replies = [
        """\
const orders = await shop.list_orders({ status: "open" });
const customers = await Promise.all(orders.map((order) => shop.get_customer({ id: order.customer })));
return customers;""",
        """\
const totals: Record<string, number> = {};
for (const order of await shop.list_orders({ status: "open" })) {
  const { name } = await shop.get_customer({ id: order.customer_id });
  totals[name] = (totals[name] ?? 0) + order.total;
}
console.log(Object.keys(totals).length, "customers");
return totals;""",
    ]
    turn = sum(message["role"] == "assistant" for message in messages)
    if turn == len(replies):
        return {"role": "assistant", "content": "Ada Lovelace has open orders for 85.50, Lin Wei for 40.00."}
    function = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"code": replies[turn]})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call-{turn}", "type": "function", "function": function}],
    }


def at_url(name: str) -> Model:
    """A model behind the chat completions API, which OpenAI, Ollama, vLLM and others have."""
    url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions"
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}", "Content-Type": "application/json"}

    def complete(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        body = json.dumps({"model": name, "messages": messages, "tools": tools}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=300) as response:
            message: Message = json.load(response)["choices"][0]["message"]
            return message

    async def model(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        return await asyncio.to_thread(complete, messages, tools)

    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", metavar="NAME", help="a model at $OPENAI_BASE_URL, instead of the script")
    name = parser.parse_args().model
    model = at_url(name) if name else scripted
    try:
        print(f"--- the answer\n{asyncio.run(answer('What do our customers owe for open orders?', model))}")
    except urllib.error.URLError as error:
        sys.exit(f"error: the model does not answer: {error}")
