#!/usr/bin/env bash
# Builds guest.wasm from pinned sources: quickjs-ng from a crate (source/Cargo.lock), quickjs.patch, guest.c with the files
# that it includes, alloc.c, instructions.c, and the C compiler of zig 0.15.2. The output is the same on every machine.
#
#   build.sh            rebuild guest.wasm and guest.wasm.sha256
#   build.sh --check    rebuild elsewhere and compare with the committed sha256
#
# Needs cargo, git and python3; installs zig into a virtual environment under target/ unless PYTHON names a python
# that has it (`pip install -r requirements.txt`).
set -euo pipefail
case "${1:-}" in
  '' | --check) ;;
  *) sed -n '2,8p' "$0" | cut -c3- >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
work=${GUEST_BUILD_DIR:-$here/../../../target/guest}
mkdir -p "$work" && work=$(cd "$work" && pwd)

if [ -z "${PYTHON:-}" ]; then
  PYTHON=$work/venv/bin/python
  [ -x "$PYTHON" ] || python3 -m venv "$work/venv"
  "$PYTHON" -m ziglang version >/dev/null 2>&1 ||
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$here/requirements.txt"
fi
version=$("$PYTHON" -m ziglang version)
[ "$version" = 0.15.2 ] || { echo "zig 0.15.2 is needed, found $version" >&2; exit 1; }

cargo fetch --quiet --locked --manifest-path "$here/source/Cargo.toml"
crate=$(cargo metadata --format-version 1 --locked --manifest-path "$here/source/Cargo.toml" |
  "$PYTHON" -c 'import json,sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"]=="rquickjs-sys"))')

# A fixed relative layout keeps paths of this machine out of the output.
rm -rf "$work/src" && mkdir -p "$work/src"
cp "$(dirname "$crate")"/quickjs/*.{c,h} "$work/src/"
cd "$work/src"
GIT_CEILING_DIRECTORIES=$work git apply "$here/quickjs.patch"
cp "$here"/{guest,encode,decode,stack,modules,libraries,check,alloc,instructions}.c "$here"/boundary.h .

cc() {
  "$PYTHON" -m ziglang cc --target=wasm32-wasi -mexec-model=reactor -O2 -fno-sanitize=undefined -D_GNU_SOURCE -DNDEBUG \
    -DGUEST_JS_STACK=768*1024 ${GUEST_CFLAGS:-} "$@"
}
own=(-mno-bulk-memory -mno-bulk-memory-opt -D{trunc=guest_trunc,floor=guest_floor,ceil=guest_ceil}) # see instructions.c
for file in libregexp libunicode dtoa; do cc -Wno-everything "${own[@]}" -c $file.c; done
# The engine's callbacks have more parameters than most of them use.
for file in guest alloc; do cc -Wall -Wextra -Werror -Wno-unused-parameter "${own[@]}" -c $file.c; done
cc -Wall -Wextra -Werror -fno-builtin -c instructions.c
cc guest.o alloc.o instructions.o libregexp.o libunicode.o dtoa.o -o guest.wasm \
  -Wl,-z,stack-size=1048576 -Wl,--export=__stack_pointer -Wl,--strip-debug

sum=$(sha256sum guest.wasm | cut -d' ' -f1)
if [ "${1:-}" = --check ]; then
  committed=$(cut -d' ' -f1 "$here/guest.wasm.sha256")
  actual=$(sha256sum "$here/guest.wasm" | cut -d' ' -f1)
  [ "$actual" = "$committed" ] || { echo "guest.wasm is not the file whose sha256 is committed" >&2; exit 1; }
  [ "$sum" = "$committed" ] || { echo "rebuilt guest.wasm differs: $sum, committed $committed" >&2; exit 1; }
  echo "guest.wasm rebuilt: $sum, as committed"
else
  cp guest.wasm "$here/guest.wasm"
  echo "$sum  guest.wasm" > "$here/guest.wasm.sha256"
  echo "guest.wasm built: $sum, $(stat -c %s guest.wasm) bytes"
fi
