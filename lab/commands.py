# SPDX-License-Identifier: Apache-2.0
"""Run another program to its end, and wait for a condition with a bound."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError


def run(*argv: str | Path, check: bool = True, stdin: str | None = None, timeout_s: float = 600) -> str:
    """Run a program and return its standard output.

    Raises:
        LabError: it is missing, ran longer than `timeout_s`, or (with `check`) ended with another code than 0.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, capture_output=True, text=True, input=stdin, timeout=timeout_s, check=False)
    except FileNotFoundError as err:
        raise LabError(f"{words[0]} is not installed. Install the Debian packages that `make doctor` names.") from err
    except subprocess.TimeoutExpired as err:
        raise LabError(f"`{' '.join(words)}` ran longer than {timeout_s:.0f} s. Look whether the machine is overloaded.") from err
    if check and done.returncode:
        raise LabError(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def wait_until(what: str, condition: Callable[[], bool], timeout_s: float, hint: str = "", period_s: float = 0.1) -> None:
    """Ask `condition` until it holds.

    Raises:
        LabError: it did not hold within `timeout_s`; `hint` says where to look.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not so after {timeout_s:.0f} s. {hint}".rstrip())
        time.sleep(period_s)
