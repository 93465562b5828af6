"""A server on the published Python SDK: one tool waits until its call is cancelled, the other counts these calls."""

import anyio
from mcp.server import MCPServer
from pydantic import BaseModel


class Calls(BaseModel):
    started: int = 0
    cancelled: int = 0


server = MCPServer("waiting", log_level="ERROR")
calls = Calls()


@server.tool()
async def wait() -> str:
    """Waits until it is cancelled."""
    calls.started += 1
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        calls.cancelled += 1
        raise


@server.tool()
def seen() -> Calls:
    """Returns the number of calls of `wait`, and how many of them were cancelled."""
    return calls


server.run()
