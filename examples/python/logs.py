"""Logs and the progress of calls, streamed while a program runs. The application can end it, and keeps what it wrote."""

import asyncio

import execbox

PROGRAM = """
for (let page = 1; ; page++) {
    const { found } = await crawler.fetch_page({ page });
    console.log(`page ${page}:`, found, "links");
}
"""


async def fetch_page(page: int, call: execbox.Call) -> dict[str, int]:
    """Fetches a page."""
    if page > 3:
        await asyncio.sleep(3600)  # a page that does not answer: the call is cancelled with the program
    for done in (1, 2):
        await asyncio.sleep(0.01)
        call.report_progress(done, 2, "parts")
    return {"found": 10 * page}


async def main() -> None:
    control = execbox.Control()

    def on_event(event: execbox.Event) -> None:
        match event:
            case execbox.events.CallProgress(call=call, done=done, total=total, message=message):
                print(f"  call {call}: {done:.0f} of {total:.0f} {message}")
            case execbox.events.Log(level=level, text=str(text)):
                print(f"{level}: {text}")
                if "page 3" in text:
                    control.terminate("three pages are enough")
            case _:
                pass

    async with execbox.Executor() as box:
        result = await box.run(
            PROGRAM,
            tools={"crawler": [fetch_page]},
            timeout=60,
            control=control,
            on_event=on_event,
            events=["log", "call_progress"],
        )
    print(result.error)
    print("kept:", result.logs)


asyncio.run(main())
