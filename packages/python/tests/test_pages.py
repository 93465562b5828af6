"""The programs of pages print what stands below them, if they need packages. The other pages are tested with the binary."""

import asyncio
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support import PACKAGE

ROOT = PACKAGE.parent.parent
ADAPTERS = ROOT / "docs" / "python-adapters.md"
EXAMPLES = ROOT / "examples" / "python"
BLOCK = re.compile(r"^```(\S+)(?: (\S+)[^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Pages(unittest.TestCase):
    def test_the_programs_of_adapters_print_what_the_page_shows(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.check(ADAPTERS, Path(place.name), 5)

    def test_the_examples_print_what_their_page_shows(self) -> None:
        self.check(EXAMPLES / "README.md", EXAMPLES, 5)

    def check(self, page: Path, place: Path, count: int) -> None:
        """Runs the commands of a page, and compares what they print; `...` stands for any text."""
        commands = 0
        for language, info, text in BLOCK.findall(page.read_text()):
            if info.startswith("file:"):
                Path(place, info.removeprefix("file:")).write_text(text)
            elif language == "console":
                command, _, output = text.removeprefix("$ ").partition("\n")
                printed = run(command.split(), place)
                pattern = ".*".join(map(re.escape, output.split("...")))
                if not re.fullmatch(pattern, printed, re.DOTALL):
                    self.assertEqual(printed, output, command)
                commands += 1
            else:
                self.assertEqual(info, "not-run:", text)
        self.assertEqual(commands, count)

    def test_tested_versions_of_frameworks_are_those_that_are_installed(self) -> None:
        rows = re.findall(r"^\|[^|]*\| `execbox\.adapters\.\w+` \| (.*) \|$", ADAPTERS.read_text(), re.MULTILINE)
        installed = (PACKAGE / "requirements.txt").read_text().split()
        named = [each.replace(" ", "==") for row in rows for each in row.split(", ")]
        self.assertEqual([each for each in named if each not in installed], [])
        self.assertEqual(len(named), 5)

    def test_the_agent_of_the_example_asks_a_model_at_a_url(self) -> None:
        scripted = runpy.run_path(str(EXAMPLES / "agent.py"))["scripted"]
        requests = []

        class Model(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                requests.append((self.path, self.headers["Authorization"], body["model"]))
                message = asyncio.run(scripted(body["messages"], body["tools"]))
                answer = json.dumps({"choices": [{"message": message}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/v1/"
            command = ["python3", "agent.py", "--model", "a-model"]
            printed = run(command, EXAMPLES, OPENAI_BASE_URL=url, OPENAI_API_KEY="key")
            server.shutdown()
        self.assertEqual(printed, run(["python3", "agent.py"], EXAMPLES))
        self.assertEqual(requests, [("/v1/chat/completions", "Bearer key", "a-model")] * 3)


def run(command: list[str], place: Path, **more: str) -> str:
    """What a command prints in a directory, also to standard error."""
    quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "FASTMCP_LOG_ENABLED": "false", "PYTHONDONTWRITEBYTECODE": "1"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **quiet, "PATH": path, "PYTHONPATH": str(PACKAGE / "src"), **more}
    program = subprocess.run(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return program.stdout
