"""The packages for Node.js: `execbox`, and one with the binary for each platform, of which npm installs the one that fits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .platforms import PLATFORMS
from .project import ROOT, TARGET, URL, run
from .release import Release

_SOURCES = ROOT / "packages/node"


def package(release: Release, work: Path) -> None:
    """The package `execbox`, whose optional dependencies are the packages of all platforms."""
    run(_SOURCES / "build")
    description = _description()
    description["optionalDependencies"] = {each.npm: release.version for each in PLATFORMS}
    for unused in ("devDependencies", "scripts"):
        del description[unused]
    shutil.copytree(TARGET / "node/dist", work / "dist")
    shutil.copy(_SOURCES / "README.md", work)
    _pack(description, [release.license], release.output, work)


def platform_package(release: Release, work: Path) -> None:
    """The package with the binary for a platform."""
    platform, main = release.platform, _description()
    files = [release.binary, release.license, release.third_party, release.bill]
    description = {
        "name": platform.npm,
        "version": release.version,
        "description": f"The binary of the package execbox for {platform.target}",
        **{key: main[key] for key in ("license", "repository", "engines")},
        "preferUnplugged": True,  # a program is not started from an archive
        "os": [platform.os],
        "cpu": [platform.cpu],
        **({"libc": [platform.libc]} if platform.libc else {}),
        "files": [file.name for file in files],
    }
    (work / "README.md").write_text(
        f"# {platform.npm}\n\nThe binary `execbox` for {platform.target}. Install the package"
        f" [execbox]({URL}/tree/main/packages/node), which depends on this one.\n"
    )
    _pack(description, files, release.output, work)


def _description() -> dict:
    return json.loads((_SOURCES / "package.json").read_text())


def _pack(description: dict, files: list[Path], output: Path, work: Path) -> None:
    (work / "package.json").write_text(json.dumps(description, indent=2) + "\n")
    for file in files:
        shutil.copy(file, work)
    run("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", output, cwd=work)
