"""What the packages of a platform are made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .platforms import Platform


@dataclass(frozen=True)
class Release:
    """A version for a platform. `parts` is the directory of the files that packages contain, `output` that of the packages."""

    version: str
    time: int  # of all files, in seconds since 1970
    platform: Platform
    parts: Path
    output: Path

    @property
    def name(self) -> str:
        return f"execbox-{self.version}-{self.platform.target}"

    @property
    def binary(self) -> Path:
        return self.parts / "execbox"

    @property
    def license(self) -> Path:
        return self.parts / "LICENSE"

    @property
    def third_party(self) -> Path:
        """The licenses of what is in the binary."""
        return self.parts / "THIRD-PARTY-LICENSES.txt"

    @property
    def bill(self) -> Path:
        """The bill of materials."""
        return self.parts / f"{self.name}.cdx.json"
