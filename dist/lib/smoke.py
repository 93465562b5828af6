"""`dist/smoke`: installs each artifact into an empty environment, by the commands of the README of the repository, runs the first
example of its README, and sets up a client with `uvx execbox setup` and `npx --yes execbox setup`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from . import platforms, project
from .client import Client
from .registry import Registry

VERSION = project.version()
MIT = "MIT License\n"


class Place:
    """An empty directory with an empty home, and an environment without cargo and without a binary."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        home, programs = directory / "home", directory / "programs"
        home.mkdir()
        programs.mkdir()
        for name in ("node", "npm", "npx"):
            if (program := shutil.which(name)) is None:
                raise SystemExit(f"error: {name} is not on the PATH: install Node.js 20 or later")
            (programs / name).symlink_to(program)
        for name in ("uv", "uvx"):
            (programs / name).symlink_to(project.SCRIPTS / name)
        (programs / "python3").symlink_to(Path(sys.executable).resolve())
        self.environment = {
            "HOME": str(home),
            "PATH": f"{programs}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "UV_OFFLINE": "1",
            "npm_config_update_notifier": "false",
        }

    def run(self, *command: str | Path, status: int = 0, **environment: str | Path) -> str:
        """What a command prints, which must exit with the status. Its standard error is part of it if it must fail."""
        errors = subprocess.STDOUT if status else None
        variables = self._variables(environment)
        result = subprocess.run(
            command, cwd=self.directory, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        if result.returncode != status:
            sys.stdout.write(result.stdout)
            raise SystemExit(f"error: {' '.join(map(str, command))}: exit status {result.returncode}, not {status}")
        return result.stdout

    def client(self, *command: str, **environment: str | Path) -> Client:
        """A client of the MCP server that a command starts."""
        return Client(command, self.directory, self._variables(environment))

    def venv(self) -> Path:
        """The python of a new virtual environment."""
        self.run("python3", "-m", "venv", "venv")
        return self.directory / "venv/bin/python"

    def install(self, python: Path, *arguments: str | Path) -> None:
        self.run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)

    def _variables(self, more: dict[str, str | Path]) -> dict[str, str]:
        return self.environment | {name: str(value) for name, value in more.items()}


def expect(what: str, actual: str, expected: str) -> None:
    if not re.fullmatch(expected, actual.strip(), re.S):
        raise SystemExit(f"error: {what}: expected\n{expected}\n but it is\n{actual}")


def example(readme: str, language: str) -> str:
    """The first block of code in a language."""
    return re.search(rf"^```{language}$\n(.*?)^```$", readme, re.S | re.M)[1]


def first_command(program: str) -> list[str]:
    """What the README of the repository says to install with a program."""
    commands = re.search(
        r"^## Install\n\n```sh .*?\n(.*?)^```$", (project.ROOT / "README.md").read_text(), re.S | re.M
    )[1]
    return re.search(rf"^({program} .*?) +#", commands, re.M)[1].split()


def only(directory: Path, pattern: str) -> Path:
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"error: {directory} has {len(found)} files {pattern}, and not one")
    return found[0]


def checksums(artifacts: Path) -> None:
    sums = dict(reversed(line.split("  ")) for line in (artifacts / "SHA256SUMS").read_text().splitlines())
    files = {file.name: file.read_bytes() for file in artifacts.iterdir() if file.name != "SHA256SUMS"}
    if {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} != sums:
        raise SystemExit(
            f"error: {artifacts}/SHA256SUMS does not have the sums of the files there: run dist/build again"
        )


def archive(artifacts: Path, place: Place) -> Path:
    """The archive's README: its first example. Returns the binary, for those packages that have none."""
    with tarfile.open(only(artifacts, f"execbox-{VERSION}-*-*.tar.gz")) as packed:
        packed.extractall(place.directory, filter="data")
    directory = only(place.directory, "execbox-*")
    command = example((directory / "README.md").read_text(), "sh").splitlines()[0]
    expect("the example of the archive", place.run("sh", "-c", f"cd {directory.name} && {command}"), "42")
    expect("its license", (directory / "LICENSE").read_text(), f"{MIT}.*")
    for file in ("THIRD-PARTY-LICENSES.txt", "completions/execbox.bash", "man/execbox-run.1"):
        assert (directory / file).stat().st_size > 100, file
    return directory / "execbox"


def wheel(artifacts: Path, place: Place) -> None:
    started = time.monotonic()
    python = place.venv()
    made = time.monotonic()
    place.run(python, "-m", *first_command("pip"), "--quiet", "--disable-pip-version-check", PIP_FIND_LINKS=artifacts)
    readme = place.run(python, "-c", "import importlib.metadata as m; print(m.metadata('execbox')['description'])")
    program = place.directory / "example.py"
    program.write_text(example(readme, "python"))
    expect("the example of the wheel", place.run(python, program), r"1 \[\] None")
    now = time.monotonic()
    print(f"wheel: first result {now - made:.1f} s after the start of pip, {now - started:.1f} s with a new venv")

    expect("the command of the wheel", place.run(python.parent / "execbox", "--version"), f"execbox {VERSION}")
    expect("the module", place.run(python, "-m", "execbox", "--version"), f"execbox {VERSION}")
    expect("the package", place.run(python, "-c", "import execbox; print(execbox.__version__)"), VERSION)
    information = only(python.parents[1], f"lib/python*/site-packages/execbox-{VERSION}.dist-info")
    expect("the license of the wheel", (information / "licenses/LICENSE").read_text(), f"{MIT}.*")
    assert (information / "licenses/THIRD-PARTY-LICENSES.txt").exists()
    assert only(information, "sboms/*.cdx.json")
    target = place.directory / "target"
    place.install(python, "--find-links", artifacts, "--target", target, "execbox")
    expect("pip install --target", place.run("python3", program, PYTHONPATH=target), r"1 \[\] None")


def sdist(artifacts: Path, place: Place, binary: Path) -> None:
    """A wheel from the sdist has no binary, says so, and uses another one."""
    source = only(artifacts, f"execbox-{VERSION}.tar.gz")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    place.run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place.directory, source)
    made = only(place.directory, f"execbox-{VERSION}-py3-none-any.whl")
    python = place.venv()
    place.install(python, made)
    program = place.directory / "example.py"
    program.write_text(example((project.ROOT / "packages/python/README.md").read_text(), "python"))
    missing = r".*BinaryNotFound: .* none for \w+ on \w+.*cargo install execbox-cli.*EXECBOX_BIN.*"
    expect("a package without a binary", place.run(python, program, status=1), missing)
    expect("EXECBOX_BIN", place.run(python, program, EXECBOX_BIN=binary), r"1 \[\] None")
    expect(
        "the binary on the PATH",
        place.run(python, program, PATH=f"{binary.parent}:/usr/bin:/bin"),
        r"1 \[\] None",
    )


def npm(artifacts: Path, place: Place, binary: Path) -> None:
    place.run("npm", "init", "--yes")
    (place.directory / "example.mjs").write_text(example((project.ROOT / "packages/node/README.md").read_text(), "js"))
    with Registry(artifacts) as registry:
        started = time.monotonic()
        place.run(*first_command("npm"), "--no-audit", "--no-fund", "--silent", npm_config_registry=registry.url)
        expect("the example of the npm package", place.run("node", "example.mjs"), r"1 \[\] undefined")
        print(f"npm: first result {time.monotonic() - started:.1f} s after the start of npm")
        fitting = platforms.of_this_machine().npm
        expect("the packages of npm", " ".join(sorted(registry.downloads)), rf"{fitting} execbox")
    modules = place.directory / "node_modules"
    expect(
        "the README",
        (modules / "execbox/README.md").read_text(),
        re.escape((project.ROOT / "packages/node/README.md").read_text().strip()),
    )
    expect("the command of npm", place.run("npx", "--offline", "execbox", "--version"), f"execbox {VERSION}")
    expect("require", place.run("node", "-e", "console.log(typeof require('execbox').Executor)"), "function")
    for package in ("execbox", fitting):
        expect(f"the license of {package}", (modules / package / "LICENSE").read_text(), f"{MIT}.*")

    shutil.rmtree(modules / "@execbox")
    missing = rf".*BinaryNotFoundError: there is no binary for \w+ on \w+: the package {fitting} is not installed.*EXECBOX_BIN.*"
    expect("a package without a binary", place.run("node", "example.mjs", status=1), missing)
    expect("EXECBOX_BIN", place.run("node", "example.mjs", EXECBOX_BIN=binary), r"1 \[\] undefined")


def gateway(place: Place, *command: str, **environment: str | Path) -> None:
    """Puts execbox, by a command that fetches it, in front of a server with the tool `add` in the file of a client.
    Then starts execbox as the client does, and runs code that calls the tool."""
    server = shutil.copy(project.ROOT / "dist/lib/adder.py", place.directory)
    file = Path(place.environment["HOME"]) / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"sums": {"command": "python3", "args": [str(server)]}}}))
    started = time.monotonic()
    place.run(*command, "cursor", "--yes", **environment)
    entry = json.loads(file.read_text())["mcpServers"]["execbox"]
    start = [entry["command"], *entry["args"]]
    expect("the command of the client", " ".join(start), rf"{' '.join(command[:-1])} mcp --config \S+/cursor\.json")
    with place.client(*start, **environment) as client:
        version, information = "2025-06-18", {"name": "smoke", "version": VERSION}
        offer = {"protocolVersion": version, "capabilities": {}, "clientInfo": information}
        expect("the version of the protocol", client.request("initialize", offer)["protocolVersion"], version)
        client.notify("notifications/initialized")
        tools = sorted(tool["name"] for tool in client.request("tools/list", {})["tools"])
        expect("the tools of the gateway", " ".join(tools), "mcp_execute_code mcp_search_tools")
        call = {"name": "mcp_execute_code", "arguments": {"code": "await sums.add({ a: 40, b: 2 })"}}
        expect("the result of the code", client.request("tools/call", call)["content"][0]["text"], "42")
        client.finish()
    print(f"{' '.join(command)}: first result {time.monotonic() - started:.1f} s after its start")


def uvx(artifacts: Path, place: Place) -> None:
    gateway(place, *first_command("uvx"), UV_FIND_LINKS=artifacts)


def npx(artifacts: Path, place: Place) -> None:
    with Registry(artifacts) as registry:
        gateway(place, "npx", "--yes", "execbox", "setup", npm_config_registry=registry.url)


def main() -> None:
    artifacts = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else project.TARGET / "artifacts"
    if not artifacts.is_dir():
        raise SystemExit(f"error: {artifacts} does not exist: make it with dist/build")
    with tempfile.TemporaryDirectory() as directory:
        places = Path(directory)
        checksums(artifacts)
        binary = archive(artifacts, Place(places / "archive"))
        wheel(artifacts, Place(places / "wheel"))
        sdist(artifacts, Place(places / "sdist"), binary)
        npm(artifacts, Place(places / "npm"), binary)
        uvx(artifacts, Place(places / "uvx"))
        npx(artifacts, Place(places / "npx"))
    print(f"{len(os.listdir(artifacts))} artifacts work: {', '.join(sorted(os.listdir(artifacts)))}")


if __name__ == "__main__":
    main()
