# SPDX-License-Identifier: Apache-2.0
"""Run another command line tool and read its JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from controller_runtime.errors import AscendPdError

TIMEOUT_S = 60


def run_json(command: Sequence[str]) -> Any:
    """Run and parse.

    Raises:
        AscendPdError: not installed, ended with an error, too slow, or printed something else.
    """
    shown = " ".join(command[:3])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise AscendPdError(f"{command[0]}: not found. Run `make tools` and source .env.sh.") from None
    except subprocess.TimeoutExpired:
        raise AscendPdError(f"{shown}: no answer within {TIMEOUT_S} s. Is the cluster reachable?") from None
    if done.returncode != 0:
        raise AscendPdError(f"{shown}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise AscendPdError(f"{shown}: printed no JSON ({error}).") from error
