"""`dist/build`: everything that is published for one platform."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from . import archive, compile, licenses, npm, platforms, project, sbom, wheel
from .project import run
from .release import Release


def main() -> None:
    options = _options()
    seconds = project.commit_time()
    os.environ["SOURCE_DATE_EPOCH"] = str(seconds)
    platform = platforms.of_target(options.target) if options.target else platforms.of_this_machine()
    output = _emptied(options.output.resolve())
    started = time.monotonic()

    def done(what: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {what}", flush=True)

    compiled = options.binary or compile.binary(platform)
    with tempfile.TemporaryDirectory() as place:

        def directory(name: str) -> Path:
            path = Path(place, name)
            path.mkdir()
            return path

        release = Release(project.version(), seconds, platform, directory("parts"), output)
        _strip(compiled, release)
        done(f"binary: {release.binary.stat().st_size / 1e6:.1f} MB")
        crates = project.crates(platform.target)
        shutil.copy(project.ROOT / "LICENSE", release.license)
        release.third_party.write_text(licenses.third_party(crates))
        release.bill.write_text(sbom.bill(release, crates))
        shutil.copy(release.bill, output)
        done(f"licenses and bill of materials: {len(crates)} crates")
        archive.archive(release)
        done("archive")
        wheel.sdist(release)
        wheel.wheel(release, directory("wheel"), exact=options.binary is None)
        done("sdist and wheel")
        npm.platform_package(release, directory("platform"))
        npm.package(release, directory("package"))
        done("npm packages")
    archive.checksums(output)
    for file in sorted(output.iterdir()):
        print(f"{file.stat().st_size / 1e6:9.2f} MB  {file.name}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dist/build", description=__doc__)
    parser.add_argument("--target", metavar="TRIPLE", help="the platform; by default this machine's")
    parser.add_argument(
        "--binary",
        metavar="FILE",
        type=Path,
        help="take this binary instead of compiling one; its wheel is for the systems on which it runs",
    )
    parser.add_argument(
        "--output",
        metavar="DIRECTORY",
        type=Path,
        default=project.TARGET / "artifacts",
        help="where the files are put instead of those of an earlier run; by default target/artifacts",
    )
    return parser.parse_args()


def _emptied(output: Path) -> Path:
    """The directory, without what an earlier run has put there."""
    output.mkdir(parents=True, exist_ok=True)
    for file in output.iterdir():
        if not re.fullmatch(r"execbox-.*|SHA256SUMS", file.name) or not file.is_file():
            raise SystemExit(
                f"error: {output} contains {file.name}, which is no artifact: name another directory with --output"
            )
    for file in output.iterdir():
        file.unlink()
    return output


def _strip(compiled: Path, release: Release) -> None:
    """Copies the binary, which must be of this version, without its symbols."""
    if not compiled.is_file():
        raise SystemExit(f"error: there is no file {compiled}")
    shutil.copy(compiled, release.binary)
    run("strip", release.binary)
    said, *_ = run(release.binary, "--version").splitlines()
    if said != f"execbox {release.version}":
        raise SystemExit(f"error: {compiled} is {said!r}, and the version in Cargo.toml {release.version}")


if __name__ == "__main__":
    main()
