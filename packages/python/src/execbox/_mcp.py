"""Tools of an MCP server, through a session of the official SDK (`mcp`, versions 1 and 2)."""

from __future__ import annotations

import inspect
import json
from typing import Any

from ._tools import Effect, Tool
from .errors import ExecboxError, ToolError

_MAX_PAGES = 1000


async def mcp_tools(session: Any) -> list[Tool]:
    """The tools of the server of a `ClientSession`, an `mcp.Client` or a client of FastMCP.

    A call gives the structured content of the result, else its only text (as JSON if that is an object or a list), else its
    content; a result with `isError` fails the call.

    Parts of schemas that cannot be checked are left out, with a warning.
    """
    if hasattr(session, "list_tools_mcp"):  # FastMCP
        session = session.session
    tools: list[Tool] = []
    cursor = None
    for _ in range(_MAX_PAGES):
        page = _json(await _page(session, cursor))
        tools += [_tool(session, each) for each in page.get("tools", [])]
        cursor = page.get("nextCursor")
        if not cursor:
            return tools
    raise ExecboxError(f"the MCP server has more than {_MAX_PAGES} pages of tools")


async def _page(session: Any, cursor: str | None) -> Any:
    """A page of the list of tools, whose parameters differ between versions of the SDK."""
    if cursor is None:
        return await session.list_tools()
    if "cursor" in inspect.signature(session.list_tools).parameters:
        return await session.list_tools(cursor=cursor)
    from mcp.types import PaginatedRequestParams

    return await session.list_tools(params=PaginatedRequestParams(cursor=cursor))


def _tool(session: Any, described: dict[str, Any]) -> Tool:
    name: str = described["name"]

    async def call(input: Any) -> Any:
        if input is not None and not isinstance(input, dict):
            raise ToolError(f"{name} takes an object with its arguments")
        return _data(_json(await session.call_tool(name, input or {})))

    return Tool(
        name,
        call,
        described.get("description"),
        described.get("inputSchema"),
        described.get("outputSchema"),
        _effect(described.get("annotations") or {}),
        lenient=True,
    )


def _json(model: Any) -> Any:
    """A model of the SDK as the protocol has it."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(model, "model_dump") else model


def _effect(annotations: dict[str, Any]) -> Effect:
    if annotations.get("readOnlyHint"):
        return "read_only"
    destructive = annotations.get("destructiveHint")
    return "unstated" if destructive is None else "destructive" if destructive else "additive"


def _data(result: dict[str, Any]) -> Any:
    """The data of a result."""
    content = result.get("content") or []
    structured = result.get("structuredContent")
    if result.get("isError"):
        said = "\n".join([each["text"] for each in content if each.get("type") == "text"])
        data = f"data: {json.dumps(structured, ensure_ascii=False)}" if structured is not None else ""
        raise ToolError("; ".join([part for part in (said, data) if part]) or "the tool failed without a message")
    if structured is not None:
        return structured
    if len(content) == 1 and content[0].get("type") == "text":
        text = content[0]["text"]
        try:
            return json.loads(text) if text.lstrip()[:1] in ("{", "[") else text
        except ValueError:
            return text
    return content or None
