"""The archive with the binary, and checksums."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tempfile
from pathlib import Path

from .project import ROOT, run
from .release import Release


def archive(release: Release) -> None:
    """The directory NAME as `NAME.tar.gz`: the binary, its documents, its manual pages and completions of shells."""
    name, time = release.name, release.time
    with (
        (release.output / f"{name}.tar.gz").open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, time) as packed,
        tarfile.open(mode="w", fileobj=packed) as tar,
    ):

        def add(path: str, content: bytes, mode: int = 0o644) -> None:
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode, entry.mtime = len(content), mode, time
            tar.addfile(entry, io.BytesIO(content))

        add("execbox", release.binary.read_bytes(), 0o755)
        for document in (ROOT / "dist/archive/README.md", release.license, release.third_party, release.bill):
            add(document.name, document.read_bytes())
        for path, content in _generated(release.binary):
            add(path, content)


def _generated(binary: Path) -> list[tuple[str, bytes]]:
    """What the binary prints about itself, by path."""

    shells = {"bash": "execbox.bash", "fish": "execbox.fish", "zsh": "_execbox"}
    files = [(f"completions/{file}", run(binary, "completions", shell).encode()) for shell, file in shells.items()]
    with tempfile.TemporaryDirectory() as pages:
        run(binary, "man", "--dir", pages)
        files += [(f"man/{page.name}", page.read_bytes()) for page in sorted(Path(pages).iterdir())]
    return files


def checksums(output: Path) -> None:
    """`SHA256SUMS`, of all files, as `sha256sum --check` reads it."""
    sums = output / "SHA256SUMS"
    files = sorted(file for file in output.iterdir() if file.is_file() and file != sums)
    sums.write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
