"""The `larder` command."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    # The command has no Python to be interrupted in.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["larder", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
