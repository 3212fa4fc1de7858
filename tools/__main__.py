# SPDX-License-Identifier: Apache-2.0
"""Entry of `python -m tools`: refuses an old Python before anything is imported that it could not read."""

from __future__ import annotations

import sys

from tools import OLDEST_PYTHON


def main() -> int:
    """Run the command line; the value is the exit code."""
    if sys.version_info < OLDEST_PYTHON:
        print(
            f"error: {sys.executable} is Python {sys.version.split()[0]}, 3.11 or newer is needed. "
            "Install it and run `make PYTHON=python3.11 ...`.",
            file=sys.stderr,
        )
        return 1
    from tools.command_line import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
