"""`python -m execbox`: the binary, with the same arguments."""

import os
import sys

from ._binary import find
from .errors import BinaryNotFound


def main() -> None:
    """Becomes the binary."""
    try:
        binary = find()
    except BinaryNotFound as error:
        sys.exit(f"error: {error}")
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    main()
