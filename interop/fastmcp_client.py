"""Drives `execbox mcp` with the client of FastMCP; arguments and servers as for client.py.

Prints a line per check and stops at the first failure.
"""

import os
import sys
import traceback

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError

CHECKS = []

# The user, who gives these answers.
answers = []
questions = []


async def ask(message, response_type, params, context):
    questions.append(message)
    return {"decision": answers.pop(0)}


def check(function):
    CHECKS.append(function)
    return function


async def execute(client: Client, code: str, **options):
    return await client.call_tool("mcp_execute_code", {"code": code}, **options)


def equal(found, expected):
    assert found == expected, f"\n  found:    {found!r}\n  expected: {expected!r}"


@check
async def it_sends_its_name(client: Client):
    equal(client.server_info.name, "execbox")


@check
async def the_servers_become_ready(client: Client):
    with anyio.fail_after(30):
        for namespace in ["everything", "files", "memory", "waiting", "far"]:
            page = {"total": 0}
            while page["total"] == 0:
                page = (await client.call_tool("mcp_search_tools", {"namespace": namespace})).structured_content


@check
async def it_lists_three_tools(client: Client):
    equal([tool.name for tool in await client.list_tools()], ["mcp_search_tools", "mcp_execute_code", "mcp_code"])


@check
async def search_ranks_the_best_tool_first(client: Client):
    found = await client.call_tool("mcp_search_tools", {"query": "contents of a text file", "namespace": "files"})
    equal(found.structured_content["tools"][0]["name"], "read_text_file")
    assert "files.read_text_file" in found.content[0].text, found.content


@check
async def code_calls_tools_of_two_servers(client: Client):
    code = """
        const sum = await far.get_sum({ a: 2, b: 40 });
        return [sum, (await files.read_text_file({ path: 'greeting.txt' })).content];
    """
    result = await execute(client, code)
    equal(result.structured_content["result"], ["The sum of 2 and 40 is 42.", "hello\n"])
    equal(result.data.ok, True)  # FastMCP makes an object of it, by the tool's output schema.


@check
async def progress_is_reported(client: Client):
    messages = []

    async def on_progress(progress: float, total: float | None, message: str | None):
        messages.append(message)

    await execute(client, "console.log('a line'); await everything.get_sum({ a: 1, b: 2 })", progress_handler=on_progress)
    with anyio.fail_after(20):
        while len(messages) < 2:
            await anyio.sleep(0.01)
    equal(sorted(messages), ["a line", "calling everything.get_sum"])


@check
async def its_user_approves_and_refuses_calls(client: Client):
    def remove(name):
        return f"await memory.delete_relations({{ relations: [{{ from: '{name}', to: 'x', relationType: 'y' }}] }})"

    questions.clear()
    answers.extend(["approve", "refuse"])
    await execute(client, remove("Ada"))
    result = await execute(client, remove("Bob"), raise_on_error=False)
    assert "not approved: the user refused the call" in result.content[0].text, result.content
    equal(len(questions), 2)


@check
async def a_failing_call_raises(client: Client):
    try:
        await execute(client, "await files.read_text_file({ path: '/etc/hostname' })")
    except ToolError as error:
        assert "Access denied" in str(error), error
    else:
        raise AssertionError("the call did not raise")


@check
async def a_failing_call_can_be_read(client: Client):
    result = await execute(client, "await everything.get_sum({ a: 1 })", raise_on_error=False)
    equal(result.is_error, True)
    assert '"b" is a required property' in result.content[0].text, result.content
    equal(result.structured_content["error"]["code"], "validation_error")


async def main(kind: str, *target: str) -> int:
    for mode in ["auto", "legacy"]:
        # Clients pass little of their environment to the servers that they start.
        stdio = {"env": dict(os.environ), "keep_alive": False}
        transport = StreamableHttpTransport(target[0]) if kind == "http" else StdioTransport(target[0], list(target[1:]), **stdio)
        with anyio.fail_after(60):
            async with Client(transport, mode=mode, elicitation_handler=ask) as client:
                for run in CHECKS:
                    title = f"FastMCP, {kind}, {client.protocol_version}: {run.__name__.replace('_', ' ')}"
                    try:
                        await run(client)
                    except Exception as error:
                        print("FAIL ", title, flush=True)
                        traceback.print_exception(error)
                        return 1
                    print("ok   ", title, flush=True)
    return 0


sys.exit(anyio.run(main, *sys.argv[1:]))
