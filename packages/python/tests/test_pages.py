"""The programs of the page on adapters print what stands below them. The other pages are tested with the binary."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import PACKAGE

PAGE = PACKAGE.parent.parent / "docs" / "python-adapters.md"
BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Pages(unittest.TestCase):
    def test_the_programs_print_what_the_page_shows(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "FASTMCP_LOG_ENABLED": "false"}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, **quiet, "PATH": path, "PYTHONPATH": str(PACKAGE / "src")}
        commands = 0
        for language, info, text in BLOCK.findall(PAGE.read_text()):
            if info.startswith("file:"):
                Path(place.name, info.removeprefix("file:")).write_text(text)
                continue
            self.assertEqual((language, info), ("console", ""), text)
            command, _, output = text.removeprefix("$ ").partition("\n")
            program = subprocess.run(
                command.split(),
                cwd=place.name,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self.assertEqual(program.stdout, output, command)
            commands += 1
        self.assertEqual(commands, 5)
