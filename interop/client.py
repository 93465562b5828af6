"""Drives `execbox mcp` with the client of the published Python SDK, over every version of the protocol that it supports.

    client.py stdio EXECBOX ARGUMENTS...     starts a server
    client.py http URL                       connects to a running server

The server uses `servers.json`. Prints a line per check and stops at the first failure.
"""

import os
import sys
import traceback
from functools import partial

import anyio
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, ElicitResult, PromptReference

CHECKS = []

# The user, who gives these answers, and declines further questions.
answers = []
questions = []


async def ask(context, params) -> ElicitResult:
    questions.append(params.message)
    return ElicitResult(action="accept", content=answers.pop(0)) if answers else ElicitResult(action="decline")


def check(function):
    CHECKS.append(function)
    return function


async def execute(client: Client, code: str, **options) -> CallToolResult:
    return await client.call_tool("mcp_execute_code", {"code": code}, **options)


async def value(client: Client, code: str):
    """Returns the result of code. The client has validated it against the tool's output schema."""
    result = await execute(client, code)
    assert not result.is_error, result.content
    return result.structured_content.get("result")


def equal(found, expected):
    assert found == expected, f"\n  found:    {found!r}\n  expected: {expected!r}"


@check
async def it_sends_its_name_and_capabilities(client: Client):
    equal(client.server_info.name, "execbox")
    assert client.server_capabilities.tools is not None


@check
async def all_servers_become_ready(client: Client):
    with anyio.fail_after(30):
        for namespace in ["everything", "files", "memory", "waiting", "far"]:
            page = {"total": 0}
            while page["total"] == 0:
                page = (await client.call_tool("mcp_search_tools", {"namespace": namespace})).structured_content


@check
async def it_lists_three_tools_with_valid_schemas(client: Client):
    tools = (await client.list_tools()).tools
    equal([tool.name for tool in tools], ["mcp_search_tools", "mcp_execute_code", "mcp_code"])
    for tool in tools:
        for schema in filter(None, [tool.input_schema, tool.output_schema]):
            Draft202012Validator.check_schema(schema)
    assert sum(len(tool.description) for tool in tools) <= 6_000


@check
async def tools_of_all_servers_are_found(client: Client):
    for query, namespace, name in [
        ("sum of two numbers", "everything", "get_sum"),
        ("contents of a text file", "files", "read_text_file"),
        ("knowledge graph entities", "memory", "create_entities"),
        ("waits until it is cancelled", "waiting", "wait"),
        ("tiny image", "far", "get_tiny_image"),
    ]:
        found = await client.call_tool("mcp_search_tools", {"query": query, "namespace": namespace})
        equal(found.structured_content["tools"][0]["name"], name)
    described = await client.call_tool("mcp_search_tools", {"describe": ["everything.get_sum"]})
    assert "function get_sum(input: {" in described.content[0].text, described.content


@check
async def code_calls_tools_of_two_servers(client: Client):
    code = """
        const [sum, file] = await Promise.all([
            everything.get_sum({ a: 2, b: 40 }),
            files.read_text_file({ path: 'greeting.txt' }),
        ]);
        return `${file.content.trim()} ${sum}`;
    """
    equal(await value(client, code), "hello The sum of 2 and 40 is 42.")
    result = await client.call_tool("mcp_code", {"code": code})
    equal(result.structured_content["result"], "hello The sum of 2 and 40 is 42.")


@check
async def structured_results_keep_their_structure(client: Client):
    code = """
        await memory.delete_entities({ entityNames: ['Ada'] });
        await memory.create_entities({ entities: [{ name: 'Ada', entityType: 'person', observations: ['counts'] }] });
        const graph = await memory.search_nodes({ query: 'Ada' });
        const weather = await far.get_structured_content({ location: 'Chicago' });
        return [graph.entities[0].observations, Object.keys(weather)];
    """
    equal(await value(client, code), [["counts"], ["temperature", "conditions", "humidity"]])


@check
async def content_other_than_text_can_be_used(client: Client):
    code = """
        const of = (blocks, type) => blocks.find(block => block.type === type);
        const image = of(await everything.get_tiny_image(), 'image');
        const blob = of(await everything.get_resource_reference({ resourceType: 'Blob' }), 'resource').resource;
        const text = of(await far.get_resource_reference({ resourceType: 'Text' }), 'resource').resource;
        const link = of(await everything.get_resource_links({ count: 1 }), 'resource_link');
        const packed = of(await everything.gzip_file_as_resource(
            { name: 'a.gz', data: 'data:text/plain,hello', outputType: 'resource' }), 'resource').resource;
        const annotated = await everything.get_annotated_message({ messageType: 'error', includeImage: true });
        const linked = await everything.read_resource({ uri: link.uri });
        const { resources, templates } = await far.list_resources();
        const page = await far.read_resource({ uri: resources[0].uri });
        return [image.mimeType, image.data.slice(0, 4), blob.blob.length > 0, text.text.startsWith('Resource 1'),
            link.uri, linked.blob.length > 0, typeof page, templates[0].uriTemplate.startsWith('demo://'), packed.blob.slice(0, 4), annotated[0].annotations.priority];
    """
    equal(
        await value(client, code),
        ["image/png", "iVBO", True, True, "demo://resource/dynamic/blob/1", True, "string", True, "H4sI", 1],
    )


@check
async def every_tool_of_a_server_answers(client: Client):
    page = await client.call_tool("mcp_search_tools", {"namespace": "everything", "limit": 50})
    names = {tool["name"] for tool in page.structured_content["tools"]}
    calls = {
        "echo": "{ message: 'x' }",
        "get_annotated_message": "{ messageType: 'success', includeImage: true }",
        "get_structured_content": "{ location: 'New York' }",
        "get_sum": "{ a: 1, b: 2 }",
        "gzip_file_as_resource": "{ data: 'data:text/plain,hello' }",
        "read_resource": "{ uri: 'demo://resource/dynamic/text/1' }",
        "simulate_research_query": "{ topic: 'x' }",
        "trigger_long_running_operation": "{ duration: 0.2, steps: 2 }",
        "trigger_url_elicitation": "{ url: 'https://example.com/' }",
    }
    calls = ", ".join(f"{name}: everything.{name}({calls.get(name, '')})" for name in sorted(names))
    code = f"""
        const calls = {{ {calls} }};
        const failed = [];
        for (const [name, call] of Object.entries(calls)) await call.catch(() => failed.push(name));
        return [Object.keys(calls).length, failed];
    """
    # It can only be called as a task, which the protocol no longer has, and returns an error.
    equal(await value(client, code), [len(names), ["simulate_research_query"]])
    assert len(names) >= 13, names


@check
async def failures_are_reported_and_caught(client: Client):
    result = await execute(client, "console.log('so far'); null.x")
    assert result.is_error and result.content[0].text.startswith("runtime_error: TypeError"), result.content
    equal(result.structured_content["logs"], ["so far"])
    result = await execute(client, "await everything.get_sum({ a: 1, b: 'two' })")
    equal(result.structured_content["error"]["code"], "validation_error")
    assert 'input.b: "two" is not of type "number"' in result.content[0].text, result.content
    code = """
        const outside = await files.read_text_file({ path: '/etc/hostname' }).catch(error => error);
        let caught;
        try { await everything.echo({}) } catch (error) { caught = error.code }
        return [outside.code, outside.message.startsWith('files.read_text_file failed: Access denied'), caught];
    """
    equal(await value(client, code), ["tool_error", True, "validation_error"])
    result = await client.call_tool("mcp_execute_code", {"kode": "1"})
    assert result.is_error, result


@check
async def progress_is_reported(client: Client):
    messages = []

    async def on_progress(progress: float, total: float | None, message: str | None):
        messages.append(message)

    code = "console.log('a line'); await far.trigger_long_running_operation({ duration: 0.2, steps: 2 }); 1"
    await execute(client, code, progress_callback=on_progress)
    with anyio.fail_after(20):
        while len(messages) < 3:
            await anyio.sleep(0.01)
    tool = "far.trigger_long_running_operation"
    last = f"{tool}: 2 of 2"  # The server may send it together with the result.
    equal(sorted(set(messages) - {last}), ["a line", f"calling {tool}", f"{tool}: 1 of 2"])


@check
async def prompts_resources_and_completions_are_those_of_the_servers(client: Client):
    prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    assert {"everything_args_prompt", "far_args_prompt"} <= {name.replace("-", "_") for name in prompts}, prompts
    [name] = [name for name in prompts if name.replace("-", "_") == "everything_args_prompt"]
    prompt = await client.get_prompt(name, {"city": "Chicago", "state": "IL"})
    assert "Chicago" in prompt.messages[0].content.text, prompt
    resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
    [shared] = [uri for uri in resources if uri.startswith("demo://") and uri.endswith("architecture.md")]
    assert f"far+{shared}" in resources, resources
    for uri in [shared, f"far+{shared}"]:
        contents = (await client.read_resource(uri)).contents
        assert contents[0].text.startswith("#"), contents
    templates = [template.uri_template for template in (await client.list_resource_templates()).resource_templates]
    [template] = [template for template in templates if template.startswith("demo://") and "text" in template]
    page = (await client.read_resource(template.replace("{resourceId}", "1"))).contents[0]
    assert "Resource 1" in page.text, page
    [completable] = [name for name in prompts if name.replace("-", "_") == "everything_completable_prompt"]
    reference = PromptReference(name=completable)
    completed = await client.complete(reference, {"name": "department", "value": "E"})
    equal(completed.completion.values, ["Engineering"])


@check
async def its_user_approves_and_refuses_calls(client: Client):
    def remove(name):
        return f"await memory.delete_relations({{ relations: [{{ from: '{name}', to: 'x', relationType: 'y' }}] }})"

    questions.clear()
    answers.extend([{"decision": "approve"}, {"decision": "refuse"}])
    result = await execute(client, remove("Ada"))
    assert "deleted" in result.content[0].text, result.content
    result = await execute(client, remove("Bob"))
    equal(result.is_error, True)
    assert "memory.delete_relations failed (line 1): not approved: the user refused the call" in result.content[0].text
    equal(len(questions), 2)
    assert "A program wants to call memory.delete_relations" in questions[0] and '"from": "Ada"' in questions[0], questions


@check
async def servers_ask_its_user(client: Client):
    questions.clear()
    answers.append({"name": "Grace"})
    result = await value(client, "await everything.trigger_elicitation_request({})")
    assert "Grace" in str(result), result
    assert questions[0].startswith('The server "everything" asks:'), questions


@check
async def a_cancelled_call_cancels_the_guest_and_its_tool(client: Client):
    async def seen():
        return await value(client, "await waiting.seen()")

    before = await seen()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(execute, client, "await waiting.wait()"))
        while (await seen())["started"] == before["started"]:
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    with anyio.fail_after(20):  # The execution itself may take a minute.
        while (await seen())["cancelled"] == before["cancelled"]:
            await anyio.sleep(0.01)


@check
async def twenty_concurrent_calls_do_not_interfere(client: Client):
    answers = {}

    async def one(number: int):
        answers[number] = await value(client, f"await everything.echo({{ message: '{number}' }})")

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    equal(answers, {number: f"Echo: {number}" for number in range(20)})


async def main(kind: str, *target: str) -> int:
    for mode in ["auto", "legacy"]:
        # Clients pass little of their environment to the servers that they start.
        stdio = partial(StdioServerParameters, args=list(target[1:]), env=dict(os.environ))
        server = target[0] if kind == "http" else stdio(command=target[0])
        with anyio.fail_after(120):
            async with Client(server, mode=mode, elicitation_callback=ask) as client:
                for run in CHECKS:
                    title = f"Python client, {kind}, {client.protocol_version}: {run.__name__.replace('_', ' ')}"
                    try:
                        await run(client)
                    except Exception as error:
                        print("FAIL ", title, flush=True)
                        traceback.print_exception(error)
                        return 1
                    print("ok   ", title, flush=True)
    return 0


sys.exit(anyio.run(main, *sys.argv[1:]))
