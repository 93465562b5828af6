"""The `execbox` binary that this package starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from .errors import BinaryNotFound

VARIABLE = "EXECBOX_BIN"


def find() -> str:
    """The path of the binary: `$EXECBOX_BIN`, the one that was installed with this package, or the one on the `PATH`."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        found = chosen if os.sep in chosen and _is_program(chosen) else _first(chosen, _path())
        if found is None:
            raise BinaryNotFound(f"{VARIABLE} is {chosen!r}, which is not a program; correct it, or unset it")
        return found
    found = _first("execbox", [*_installed(), *_path()])
    if found is None:
        raise BinaryNotFound(
            f"the package execbox was installed without its binary, as there is none for {_platform()}, and there is no execbox "
            f"on the PATH; build it with `cargo install execbox-cli`, and set {VARIABLE} to its path if it is elsewhere"
        )
    return found


def _installed() -> list[str]:
    """Where installers put the programs of a package, seen from `lib/python3.X/site-packages/execbox`, or from
    `TARGET/execbox` after `pip install --target`. The module `sysconfig` takes longer to import than a program to run."""
    package = os.path.dirname(os.path.abspath(__file__))
    return [os.path.normpath(os.path.join(package, *up, "bin")) for up in ([".."] * 4, [".."])]


def _path() -> list[str]:
    return [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]


def _first(name: str, folders: Iterable[str]) -> str | None:
    """The first program of that name. The module `shutil` takes long to import, too."""
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if _is_program(path)), None)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _platform() -> str:
    system = os.uname()
    libc = " with musl" if sys.platform == "linux" and os.path.exists(f"/lib/ld-musl-{system.machine}.so.1") else ""
    return f"{sys.platform} on {system.machine}{libc}"
