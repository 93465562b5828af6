"""The repository: where it is, its version, and the crates that are in the binary."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
SCRIPTS = Path(sys.executable).parent  # of the tools that requirements.txt names
URL = "https://github.com/execbox/execbox"


def run(*command: str | Path, **options) -> str:
    """The standard output of a command that must succeed. What it prints otherwise is shown if it fails."""
    result = subprocess.run(command, text=True, capture_output=True, **options)
    if result.returncode != 0:
        printed = (result.stdout + result.stderr).strip()
        raise SystemExit(f"{printed}\nerror: {' '.join(map(str, command))}: exit status {result.returncode}")
    return result.stdout


def version() -> str:
    """The version of everything that is published: the one in Cargo.toml."""
    return run(ROOT / "dist/version").strip()


def commit_time() -> int:
    """When the last commit was made, in seconds: the time of all files, so that a commit always gives the same bytes."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if not (ROOT / ".git").exists():
        raise SystemExit(
            "error: this is no checkout of git: set SOURCE_DATE_EPOCH to the time of the files, in seconds since 1970"
        )
    return int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


@dataclass(frozen=True)
class Crate:
    """A crate of which code is in the binary."""

    name: str
    version: str
    license: str
    authors: tuple[str, ...]
    repository: str | None
    directory: Path
    checksum: str | None  # the SHA-256 of its package; None for crates of this repository
    dependencies: tuple[tuple[str, str], ...]  # names and versions

    @property
    def is_ours(self) -> bool:
        return self.checksum is None


def crates(target: str) -> list[Crate]:
    """All crates in the binary for a target, without what is only used while it is built."""
    metadata = json.loads(
        run("cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", target, cwd=ROOT)
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    checksums = _checksums()
    used = _in_the_binary(target)

    def identity(package: dict) -> tuple[str, str]:
        return package["name"], package["version"]

    found = []
    for id, package in packages.items():
        if identity(package) not in used:
            continue
        dependencies = {identity(packages[each["pkg"]]) for each in nodes[id]["deps"]}
        found.append(
            Crate(
                name=package["name"],
                version=package["version"],
                license=re.sub(r" ?/ ?", " OR ", package["license"]),
                authors=tuple(package["authors"]),
                repository=package["repository"],
                directory=Path(package["manifest_path"]).parent,
                checksum=checksums.get(identity(package)),
                dependencies=tuple(sorted(dependencies & used)),
            )
        )
    return sorted(found, key=lambda crate: (crate.name, crate.version))


def _in_the_binary(target: str) -> set[tuple[str, str]]:
    tree = (
        "cargo",
        "tree",
        "--locked",
        "--package=execbox-cli",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}",
    )
    lines = run(*tree, "--target", target, cwd=ROOT).splitlines()
    return {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, lines)}


def _checksums() -> dict[tuple[str, str], str]:
    lock = (ROOT / "Cargo.lock").read_text()
    entries = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"', lock)
    return {(name, version): checksum for name, version, checksum in entries}
