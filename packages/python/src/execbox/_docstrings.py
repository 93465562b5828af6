"""Descriptions from docstrings: of a function and of its parameters, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import inspect
import re

_GOOGLE = re.compile(r"^(Args|Arguments|Parameters|Returns|Return|Yields|Raises|Example|Examples|Note|Notes):\s*$")
_NUMPY = re.compile(r"^(Parameters|Returns|Yields|Raises|Examples|Notes|See Also)\n-{3,}\s*$", re.MULTILINE)
_GOOGLE_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")
_SPHINX = re.compile(r"^:(param|parameter|arg|type|returns?|rtype|raises?)\s*([^:]*):\s*(.*)$")


def read(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description of a function, without the sections about its parameters and result, and those of its parameters."""
    if not docstring:
        return "", {}
    text = _NUMPY.sub(lambda match: f"{match[1]}:", inspect.cleandoc(docstring))
    is_numpy = bool(_NUMPY.search(inspect.cleandoc(docstring)))
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, entry = "", None
    for line in text.splitlines():
        heading = _GOOGLE.match(line)
        sphinx = _SPHINX.match(line)
        if heading:
            section, entry = heading[1], None
        elif sphinx:
            section, entry = "Sphinx", None
            if sphinx[1] in ("param", "parameter", "arg"):
                entry = parameters.setdefault(sphinx[2].split()[-1], [sphinx[3]])
        elif section and line and not line.startswith(" ") and not is_numpy:
            section, entry = "", None
            description.append(line)
        elif not section:
            description.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            entry = _entry(line, entry, parameters, is_numpy)
        elif section == "Sphinx" and entry is not None:
            entry.append(line.strip())
    return "\n".join(description).strip(), {name: " ".join(lines).strip() for name, lines in parameters.items()}


def _entry(line: str, entry: list[str] | None, parameters: dict[str, list[str]], is_numpy: bool) -> list[str] | None:
    """Reads a line of a section about parameters: the beginning of an entry, or a further line of the one before."""
    indent = len(line) - len(line.lstrip())
    match = (_NUMPY_ENTRY if is_numpy else _GOOGLE_ENTRY).match(line.strip())
    if match and indent <= (0 if is_numpy else 4):
        return parameters.setdefault(match[1], [] if is_numpy else [match[2]])
    if entry is not None:
        entry.append(line.strip())
    return entry
