"""Puts the binary into a wheel, where there is one: `dist/build` copies it to `bin/execbox`."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Binary(BuildHookInterface):
    """The binary becomes the command `execbox`, and the wheel one for a platform. Without it, the wheel is for all of them."""

    def initialize(self, version: str, build_data: dict) -> None:
        binary = Path(self.root, "bin", "execbox")
        if not binary.exists():
            return
        build_data["shared_scripts"][str(binary)] = "execbox"
        build_data["sbom_files"] = [str(file) for file in sorted(Path(self.root, "sboms").iterdir())]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['EXECBOX_WHEEL_PLATFORM']}"
