"""An MCP server on standard input and output with one tool, `add`: `dist/smoke` starts it behind `execbox mcp`."""

from __future__ import annotations

import json
import sys

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}


def answer(method: str, params: dict) -> dict:
    """The members of the answer to a request: its `result`, or an `error` if the method is unknown."""
    if method == "initialize":
        information = {"name": "adder", "version": "1"}
        version = params["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": information}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": "add", "description": "Adds two numbers.", "inputSchema": NUMBERS}]}}
    if method == "tools/call":
        total = params["arguments"]["a"] + params["arguments"]["b"]
        return {"result": {"content": [{"type": "text", "text": str(total)}]}}
    return {"error": {"code": -32601, "message": f"unknown method {method}"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        content = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **content}), flush=True)
