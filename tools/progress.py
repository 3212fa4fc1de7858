# SPDX-License-Identifier: Apache-2.0
"""What a person sees during a long build: one line per binary, alive while it is built.

On a terminal the current line counts seconds; elsewhere (CI logs) a line appears every half minute.
"""

from __future__ import annotations

import sys
from typing import TextIO

QUIET_PERIOD_S = 30.0


class Progress:
    """Prints `[ 3/17] etcd  built 44 s`. `total` is the number of binaries in this run."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._total = total
        self._number = 0
        self._said_s = 0.0
        self._is_open = False

    def begin(self) -> None:
        """Go on to the next binary."""
        self._number += 1
        self._said_s = 0.0

    def alive(self, name: str, what: str, elapsed_s: float) -> None:
        """Say that `name` is still being worked on."""
        line = f"{self._prefix(name)} {what} {elapsed_s:.0f} s"
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{line}")
            self._is_open = True
        elif elapsed_s - self._said_s >= QUIET_PERIOD_S:
            self._said_s = elapsed_s
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def done(self, name: str, how: str, elapsed_s: float) -> None:
        """Finish the line of `name`; `how` is cached, built or installed."""
        took = f" {elapsed_s:.0f} s" if elapsed_s >= 0.5 else ""
        self.say(f"{self._prefix(name)} {how}{took}")

    def say(self, text: str) -> None:
        """Print a whole line, ending a line that is still open on a terminal."""
        opening = "\r\x1b[K" if self._is_open else ""
        self._is_open = False
        self._stream.write(f"{opening}{text}\n")
        self._stream.flush()

    def _prefix(self, name: str) -> str:
        width = len(str(self._total))
        return f"[{self._number:>{width}}/{self._total}] {name:<28}"
