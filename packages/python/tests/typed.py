"""A user's code, which the type checkers read strictly. It is not run."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import execbox


@dataclasses.dataclass
class Order:
    id: str
    total: int


@execbox.tool(effect="read_only")
async def list_orders(status: str, limit: int = 50) -> list[Order]:
    return [Order(status, limit)]


@execbox.tool
def cancel_order(id: str, call: execbox.Call) -> None:
    call.report_progress(1, total=2, message=id)


keeps_its_type: Callable[[str, int], Awaitable[list[Order]]] = list_orders


def on_event(event: execbox.Event) -> None:
    match event:
        case execbox.events.Log(text=text):
            print(text)
        case execbox.events.CallEnded(name=name, duration_ms=duration):
            print(name, duration)
        case _:
            pass


async def approve(question: execbox.Question) -> execbox.Answer:
    return execbox.Answer("refuse", f"{question.tool} is not for programs")


async def main() -> None:
    tools: execbox.Tools = {"shop": [list_orders, cancel_order], "more": execbox.Provider([list_orders], "More tools")}
    async with execbox.Executor("inline", max_programs=4) as box:
        result = await box.run(
            "1 + 1",
            tools=tools,
            timeout=5,
            memory="64MiB",
            limits={"max_calls": 20},
            policy=[execbox.Rule("ask", effect="destructive")],
            approve=approve,
            on_event=on_event,
            events=["log", "call_ended"],
        )
        value: Any = result.raise_for_error().value
        logs: list[str] = result.logs
        error: execbox.ProgramError | None = result.error
        calls: int = result.usage.calls
        run = await box.run_code("export default load", globals={"load": list_orders}, function="default", report=True)
        first: execbox.LogCall = run.logs[0]
        types: str = await box.types(tools)
        tool = await box.code_tool(tools, name="run", timeout=5, max_text_chars=1000, servers=["github"])
        text: str | None = (await tool.run("1 + 1")).text
        print(value, logs, error, calls, first.level, types, tool.description, tool.input_schema, text)


def without_asyncio() -> int:
    with execbox.SyncExecutor() as box:
        print(box.code_tool({"shop": [list_orders]}).run("1").text)
        return box.run("1 + 1", timeout=1).usage.calls
