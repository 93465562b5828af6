"""The platforms that artifacts are built for, and what each kind of package calls them."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

GLIBC = "2.28"  # the oldest glibc that binaries start with: that of Debian 10, RHEL 8 and `manylinux_2_28`


@dataclass(frozen=True)
class Platform:
    """A platform by the names of Rust (`target`), npm (`os`, `cpu`, `libc`) and Python (`wheel`)."""

    target: str
    os: str
    cpu: str
    libc: str | None
    wheel: str

    @property
    def npm(self) -> str:
        """The npm package that contains its binary."""
        return f"@execbox/{self.os}-{self.cpu}" + ("-musl" if self.libc == "musl" else "")

    @property
    def is_glibc(self) -> bool:
        return self.libc == "glibc"


MANYLINUX = f"manylinux_{GLIBC.replace('.', '_')}"

PLATFORMS = [
    Platform("x86_64-unknown-linux-gnu", "linux", "x64", "glibc", f"{MANYLINUX}_x86_64"),
    Platform("aarch64-unknown-linux-gnu", "linux", "arm64", "glibc", f"{MANYLINUX}_aarch64"),
    Platform("x86_64-unknown-linux-musl", "linux", "x64", "musl", "musllinux_1_2_x86_64"),
    Platform("aarch64-unknown-linux-musl", "linux", "arm64", "musl", "musllinux_1_2_aarch64"),
    Platform("x86_64-apple-darwin", "darwin", "x64", None, "macosx_11_0_x86_64"),
    Platform("aarch64-apple-darwin", "darwin", "arm64", None, "macosx_11_0_arm64"),
]


def of_target(target: str) -> Platform:
    for each in PLATFORMS:
        if each.target == target:
            return each
    raise SystemExit(f"error: {target} is not one of {', '.join(each.target for each in PLATFORMS)}")


def of_this_machine() -> Platform:
    """The platform of this machine, with the C library of its python."""
    cpu = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    libc = (platform.libc_ver()[0] or "musl") if sys.platform == "linux" else None
    for each in PLATFORMS:
        if (each.os, each.cpu, each.libc) == (sys.platform, cpu, libc):
            return each
    raise SystemExit(f"error: there are no artifacts for {sys.platform} on {platform.machine()}")
