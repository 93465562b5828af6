"""The binary for a platform: compiled as a release, without symbols, for the oldest C library that it should start with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .platforms import GLIBC, Platform, of_this_machine
from .project import ROOT, SCRIPTS, TARGET, run

_OPTIONS = ["--release", "--locked", "--package=execbox-cli", "--bin=execbox"]


def binary(platform: Platform) -> Path:
    """Compiles the binary. On Linux, zig links it: against glibc 2.28 on any machine, or statically with musl."""
    environment = {**os.environ, "CARGO_INCREMENTAL": "0"}
    if platform.os == "linux":
        _install_zig()
        # cargo-zigbuild is a subcommand of cargo, and finds zig as a module of this python.
        environment |= {
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
            "CARGO_ZIGBUILD_PYTHON_PATH": sys.executable,
        }
        command = ["cargo", "zigbuild", f"--target={platform.target}" + (f".{GLIBC}" if platform.is_glibc else "")]
    else:
        command = ["cargo", "build", f"--target={platform.target}"]
    if platform.cpu != of_this_machine().cpu:
        command.append("--features=execbox-quickjs/cross")  # the build script compiles the engine for that processor
    if subprocess.run([*command, *_OPTIONS], cwd=ROOT, env=environment).returncode != 0:
        raise SystemExit("error: the binary could not be compiled")
    return TARGET / platform.target / "release/execbox"


def _install_zig() -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--only-binary=:all:",
    ]
    run(*pip, "-r", ROOT / "dist/compile-requirements.txt")
