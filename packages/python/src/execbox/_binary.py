"""The `execbox` binary that this package starts."""

from __future__ import annotations

import os
import sys

from .errors import BinaryNotFound

VARIABLE = "EXECBOX_BIN"


def find() -> str:
    """The path of the binary: `$EXECBOX_BIN`, the one in this package, or the one on the `PATH`."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        found = _on_path(chosen)
        if found is None:
            raise BinaryNotFound(f"{VARIABLE} is {chosen!r}, which is not a program; correct it, or unset it")
        return found
    packaged = os.path.join(os.path.dirname(__file__), "bin", "execbox")
    found = packaged if os.access(packaged, os.X_OK) else _on_path("execbox")
    if found is None:
        raise BinaryNotFound(
            f"this package has no binary for {sys.platform} on {os.uname().machine}, and there is no execbox on the PATH; "
            f"build it with `cargo install execbox-cli`, and set {VARIABLE} to its path if it is elsewhere"
        )
    return found


def _on_path(name: str) -> str | None:
    """The program of that name or path. `shutil.which` does more, and takes longer to import than a program to run."""
    folders = [""] if os.sep in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK) and not _is_script_of_this_package(path):
            return path
    return None


def _is_script_of_this_package(path: str) -> bool:
    """Whether it is the script that an installer puts beside the interpreter, which starts this package."""
    beside = os.path.join(os.path.dirname(sys.executable), "execbox")
    if os.path.realpath(path) != os.path.realpath(beside):
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
