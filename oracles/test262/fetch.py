"""Writes the tests of test262 as one JSON object, from paths to sources: `fetch.py FILE`.

No package registry has test262 itself. The sources of SpiderMonkey in Debian contain it, near the beginning of their archive:
6 of its 157 MB are fetched, from the mirror in $DEBIAN_MIRROR or those that apt uses.
"""

import hashlib
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import urllib.request

ARCHIVE = "pool/main/m/mozjs128/mozjs128_128.14.0.orig.tar.xz"
LENGTH = 6_000_000
SHA256 = "a008e91a60f635bed36d700b535b9f16c0fcfc934f65d1ad5fbd2912a75de487"
PREFIX = "firefox-128.14.0/js/src/tests/test262/"


def mirrors():
    if mirror := os.environ.get("DEBIAN_MIRROR"):
        return [mirror]
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    try:
        return sorted(set(subprocess.run(command, capture_output=True, text=True).stdout.split()))
    except OSError:
        return []


def fetch():
    """Returns the first bytes of the archive. Raises SystemExit if no mirror has it."""
    causes = []
    for mirror in mirrors():
        address = f"{mirror.rstrip('/')}/{ARCHIVE}"
        request = urllib.request.Request(address, headers={"Range": f"bytes=0-{LENGTH - 1}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                start = answer.read(LENGTH)
        except OSError as error:
            causes.append(f"{address}: {error}")
            continue
        if hashlib.sha256(start).hexdigest() == SHA256:
            return start
        causes.append(f"{address}: other content")
    raise SystemExit("\n  ".join(["no Debian mirror has the sources of SpiderMonkey 128.14; $DEBIAN_MIRROR can name one", *causes]))


def tests(start):
    """Yields paths below test262/ and their sources. The tests are one run of members, which ends before the bytes do."""
    inside = False
    with tarfile.open(fileobj=io.BytesIO(lzma.LZMADecompressor().decompress(start)), mode="r:") as archive:
        for member in archive:
            if member.name.startswith(PREFIX):
                inside = True
                if member.name.endswith(".js"):
                    yield member.name.removeprefix(PREFIX), archive.extractfile(member).read().decode()
            elif inside:
                return


found = dict(tests(fetch()))
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(found, file)
os.replace(sys.argv[1] + ".part", sys.argv[1])
