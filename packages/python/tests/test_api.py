"""The page of the API is what the docstrings say. `UPDATE=1` writes it."""

import ast
import os
import re
import textwrap
import unittest

from support import PACKAGE

import execbox

PAGE = PACKAGE.parent.parent / "docs" / "python-api.md"
SOURCE = PACKAGE / "src" / "execbox"
SECTIONS = {
    "Executors": ["Executor", "SyncExecutor", "ExecutorOptions", "Server", "Check", "TotalUsage"],
    "Tools for models": ["CodeTool", "SyncCodeTool", "CodeToolOptions"],
    "Options": ["Options", "ScriptOptions", "CodeOptions", "Limits", "Control"],
    "Tools": ["Tools", "tool", "Tool", "Provider", "Call", "Effect", "mcp_tools"],
    "Policies": ["Rule", "Question", "Answer"],
    "Results": ["Result", "CodeResult", "LogCall", "Usage"],
    "Errors": [
        *("ExecboxError", "ProgramError", "Position", "Frame", "ToolError", "InvalidInput", "SerializationError"),
        *("ServiceError", "ServiceEnded", "ExecutorClosed", "BinaryNotFound"),
    ],
    "Events": ["EventType", "Event", "events"],
    "Values": ["UNDEFINED", "BigInt", "Map", "RegExp", "ErrorValue", "Tagged"],
}
HEAD = """# Python API

Everything that `import execbox` gives. It is made from the package, whose docstrings an editor shows, too;
[Python](python.md) shows how to use it.
"""


class Api(unittest.TestCase):
    def test_the_page_is_what_the_docstrings_say(self) -> None:
        page = HEAD + "".join(f"\n## {title}\n" + "".join(map(entry, names)) for title, names in SECTIONS.items())
        if os.environ.get("UPDATE"):
            PAGE.write_text(page)
        self.assertEqual(PAGE.read_text(), page, "UPDATE=1 writes docs/python-api.md")

    def test_the_page_has_all_names(self) -> None:
        self.assertEqual(sorted(name for names in SECTIONS.values() for name in names), sorted(execbox.__all__))


def definitions() -> dict[str, tuple[ast.stmt, str | None]]:
    """The definitions of the modules, by their names, with the text below each that is an assignment."""
    found = {}
    for file in sorted(SOURCE.glob("*.py")):
        body = ast.parse(file.read_text()).body
        for number, node in enumerate(body):
            below = body[number + 1] if number + 1 < len(body) else None
            for name in names_of(node):
                if name not in found or isinstance(
                    node, ast.FunctionDef
                ):  # an implementation comes after its overloads
                    found[name] = (node, text_of(below))
    return found


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def text_of(node: ast.stmt | None) -> str | None:
    """The text of a string that stands by itself."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None


DEFINITIONS = definitions()


def entry(name: str) -> str:
    """The part of the page about one name."""
    if name == "events":
        return EVENTS
    node, below = DEFINITIONS[name]
    if isinstance(node, ast.ClassDef):
        return class_entry(node)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return heading(name) + shown(signature(node)) + paragraphs(ast.get_docstring(node))
    value = ast.unparse(node.value) if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value else ""
    value = textwrap.fill(value, 116, break_long_words=False)
    text = f"\n```text\n{value}\n```\n" if "\n" in value else f"\n`{value}`\n"
    return heading(name) + paragraphs(below) + (text if 0 < len(value) < 300 else "")


def class_entry(node: ast.ClassDef) -> str:
    bases = [ast.unparse(base) for base in node.bases]
    bases = [base for base in bases if not base.startswith("_") and base not in ("NamedTuple", "TypedDict")]
    part = heading(f"class {node.name}" + (f"({', '.join(bases)})" if bases else "")) + paragraphs(
        ast.get_docstring(node)
    )
    rows, methods = members(node)
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id.startswith("_") and base.id in DEFINITIONS:
            inherited = DEFINITIONS[base.id][0]
            assert isinstance(inherited, ast.ClassDef)
            rows, methods = [a + b for a, b in zip(members(inherited), (rows, methods), strict=True)]
    if rows:
        part += "\n| | |\n|---|---|\n" + "".join(f"| `{what}` | {text} |\n" for what, text in rows)
    for what, text in methods:
        part += shown(what) + paragraphs(text)
    return part


def shown(signature: str) -> str:
    """A signature. A long one has a parameter in each line."""
    if len(signature) < 119:
        return f"\n`{signature}`\n"
    head, _, rest = signature.partition("(")
    parameters, _, end = rest.rpartition(")")
    lines = [f"    {each}," for each in re.split(r", (?=[a-z_]+:|\*|/)", parameters)]
    return "\n".join(["", "```text", f"{head}(", *lines, f"){end}", "```", ""])


def members(node: ast.ClassDef) -> tuple[list[tuple[str, str]], list[tuple[str, str | None]]]:
    """The attributes and the methods that are public, with their descriptions."""
    rows: list[tuple[str, str]] = []
    methods: list[tuple[str, str | None]] = []
    for number, member in enumerate(node.body):
        below = text_of(node.body[number + 1]) if number + 1 < len(node.body) else None
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            default = f" = {ast.unparse(member.value)}" if member.value is not None else ""
            what = f"{member.target.id}: {ast.unparse(member.annotation)}{default}"
            rows.append((what.replace("|", "\\|"), one_line(below)))
        elif isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = [ast.unparse(each) for each in member.decorator_list]
            if "property" in decorators:
                rows.append(
                    (
                        f"{member.name}: {ast.unparse(member.returns)}".replace("|", "\\|"),
                        one_line(ast.get_docstring(member)),
                    )
                )
            elif member.name == "__init__" and ast.get_docstring(member):
                methods.append((signature(member, node.name), ast.get_docstring(member)))
            elif not member.name.startswith("_") and ast.get_docstring(member):
                methods.append((signature(member), ast.get_docstring(member)))
    return rows, methods


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str | None = None) -> str:
    arguments = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    for group in (arguments.args.posonlyargs, arguments.args.args):
        if group and group[0].arg in ("self", "cls"):
            del group[0]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and name is None else ""
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}{name or node.name}({ast.unparse(arguments.args)}){returns}"


def heading(text: str) -> str:
    return f"\n### `{text}`\n"


def one_line(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip().replace("|", "\\|")


def paragraphs(text: str | None) -> str:
    """A docstring, wrapped as pages are."""
    parts = re.split(r"\n\s*\n", textwrap.dedent(text or "").strip())
    return "".join(
        "\n" + textwrap.fill(one_line(part), 120, break_long_words=False, break_on_hyphens=False) + "\n"
        for part in parts
        if part
    )


def events_entry() -> str:
    rows = []
    body = ast.parse((SOURCE / "events.py").read_text()).body
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            fields = [
                member.target.id
                for member in node.body
                if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name)
            ]
            base = ast.unparse(node.bases[0])
            fields = [*(["call", "name", "provider"] if base == "_CallEvent" else []), *fields]
            rows.append((node.name, ", ".join(f"`{field}`" for field in fields), one_line(ast.get_docstring(node))))
    table = "".join(f"| `{name}` | {fields} | {text} |\n" for name, fields, text in rows)
    text = "The classes of events. Each has `dropped`, the number of events that were dropped before it."
    return heading("events") + paragraphs(text) + "\n| | fields | |\n|---|---|---|\n" + table


EVENTS = events_entry()

if __name__ == "__main__":
    unittest.main()
