"""The licenses of what is in the binary: THIRD-PARTY-LICENSES.txt."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from .project import ROOT, Crate

_IS_LICENSE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-_.](?!rs$|c$|h$).*)?", re.I)
_LINE = "-" * 79

_HEAD = """\
The binary `execbox` contains code of these projects. Above each text are the crates that it belongs to. A crate under
"A OR B" may be used under either license.
"""


def third_party(crates: list[Crate]) -> str:
    """The texts of all licenses, each once, with the crates that have it."""
    users: dict[str, list[str]] = defaultdict(list)
    texts: dict[str, str] = {}
    for crate in crates:
        if crate.is_ours:
            continue
        for text in _texts(crate, crates):
            key = " ".join(text.split())
            texts.setdefault(key, text)
            title = f"{crate.name} {crate.version} ({crate.license})"
            if title not in users[key]:
                users[key].append(title)
    parts = [_HEAD, _part("The Rust standard library (MIT OR Apache-2.0)", _mit("The Rust Project Contributors"))]
    parts += [_part("\n".join(users[key]), texts[key]) for key in sorted(texts, key=lambda key: users[key][0])]
    # What is in guest.wasm and in the tables of crates/locale.
    return "\n".join([*parts, _part("Parts that are no crates", (ROOT / "NOTICE").read_text())])


def _part(title: str, text: str) -> str:
    return f"{_LINE}\n{title}\n{_LINE}\n\n{text.strip()}\n"


def _texts(crate: Crate, crates: list[Crate]) -> list[str]:
    """The license files of a crate; where it has none, the text of its license."""
    if own := _files(crate.directory):
        return own
    if crate.license == "MIT" and crate.authors:
        return [_mit(", ".join(crate.authors))]
    if crate.license.startswith("Apache-2.0"):  # a text without the names of authors
        for other in crates:
            if other.license == crate.license and (found := _files(other.directory)):
                return found
    raise SystemExit(
        f"error: {crate.name} {crate.version} ({crate.license}) contains no license: say in dist/lib/licenses.py what applies"
    )


def _files(directory: Path) -> list[str]:
    """The texts in a crate, also those of what it contains of other projects."""
    files = sorted(file for file in directory.rglob("*") if _IS_LICENSE.fullmatch(file.name) and file.is_file())
    return [file.read_text(errors="replace") for file in files]


def _mit(holders: str) -> str:
    terms = (ROOT / "LICENSE").read_text().split("\n\n", 2)[2]
    return f"MIT License\n\nCopyright (c) {holders}\n\n{terms}"
