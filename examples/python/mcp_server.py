"""An MCP server with notes, for mcp_client.py: `pip install mcp`, version 2."""

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

NOTES = {
    "packing": "Ridge 2 tent, Ember stove, two Drift mats.",
    "repairs": "The Ridge 2 tent needs a new pole, the stove a seal.",
    "route": "From Lyon by train, then on foot.",
}

server = MCPServer("notes")


class Note(BaseModel):
    name: str
    text: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_notes() -> list[str]:
    """Lists the names of all notes."""
    return list(NOTES)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_note(name: str) -> Note:
    """Returns a note."""
    return Note(name=name, text=NOTES[name])


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def delete_note(name: str) -> None:
    """Deletes a note."""
    del NOTES[name]


if __name__ == "__main__":
    server.run()
