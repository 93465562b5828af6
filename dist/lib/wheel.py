"""The packages for Python: an sdist without a binary, and a wheel with one."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from pathlib import Path

from .platforms import MANYLINUX
from .project import ROOT, SCRIPTS, run
from .release import Release


def sdist(release: Release) -> None:
    """The sources. A wheel that is built from them has no binary, and says so when it is used."""
    _hatchling("sdist", ROOT / "packages/python", release.output)


def wheel(release: Release, work: Path, *, exact: bool) -> None:
    """A wheel from the sdist, the binary and its documents. It has the tag of the platform, which is an error if the binary
    needs a newer C library and `exact`; else the tag of the systems on which the binary runs."""
    with tarfile.open(release.output / f"execbox-{release.version}.tar.gz") as archive:
        archive.extractall(work, filter="data")
    project = work / f"execbox-{release.version}"
    for directory, file in (("bin", release.binary), ("sboms", release.bill), (".", release.third_party)):
        (project / directory).mkdir(exist_ok=True)
        shutil.copy(file, project / directory)
    platform = release.platform
    if platform.is_glibc:
        made = work / "linux"
        _hatchling("wheel", project, made, EXECBOX_WHEEL_PLATFORM=platform.wheel.replace(MANYLINUX, "linux"))
        _audit(made, platform.wheel if exact else "auto", release.output)
    else:
        _hatchling("wheel", project, release.output, EXECBOX_WHEEL_PLATFORM=platform.wheel)


def _hatchling(kind: str, project: Path, output: Path, **environment: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", output]
    run(*command, cwd=project, env={**os.environ, **environment})


def _audit(made: Path, tag: str, output: Path) -> None:
    """Checks which symbols of the C library the binary needs, and gives the wheel the tag of the systems that have them."""
    (file,) = made.iterdir()
    command = [SCRIPTS / "auditwheel", "repair", "--plat", tag, "--only-plat", "--wheel-dir", output, file]
    run(*command, env={**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"})
