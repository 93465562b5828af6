"""A registry of npm packages on this machine, which has the packages that `dist/build` made, and knows those of other platforms."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from .platforms import PLATFORMS, Platform


class Registry:
    """Serves while it is a context. `downloads` has the names of the packages that were fetched."""

    def __init__(self, artifacts: Path) -> None:
        self.downloads: list[str] = []
        self._files = {
            description["name"]: (description, file)
            for file in artifacts.glob("*.tgz")
            for description in [_description(file)]
        }
        version = self._files["execbox"][0]["version"]
        self._packages = {each.npm: _of_another_platform(each, version) for each in PLATFORMS}
        self._packages |= {name: description for name, (description, _) in self._files.items()}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = registry._answer(unquote(self.path).lstrip("/"))
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Registry:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()

    def _answer(self, path: str) -> bytes | None:
        name, _, file = path.partition("/-/")
        if file and name in self._files:
            self.downloads.append(name)
            return self._files[name][1].read_bytes()
        description = self._packages.get(name)
        if file or description is None:
            return None
        version = description["version"]
        content = self._files[name][1].read_bytes() if name in self._files else b""
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
        description["dist"] = {"tarball": f"{self.url}/{name}/-/package.tgz", "integrity": f"sha512-{digest}"}
        return json.dumps({"name": name, "dist-tags": {"latest": version}, "versions": {version: description}}).encode()


def _description(file: Path) -> dict:
    with tarfile.open(file) as packed:
        return json.load(packed.extractfile("package/package.json"))


def _of_another_platform(platform: Platform, version: str) -> dict:
    limits = {"os": [platform.os], "cpu": [platform.cpu]} | ({"libc": [platform.libc]} if platform.libc else {})
    return {"name": platform.npm, "version": version, **limits}
