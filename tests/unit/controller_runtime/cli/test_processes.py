# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys

import pytest

from controller_runtime.cli import processes
from controller_runtime.cli.processes import run_json
from controller_runtime.errors import AscendPdError


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_what_a_program_prints_is_parsed() -> None:
    assert run_json(python("print('{\"a\": 1}')")) == {"a": 1}


def test_a_program_that_is_missing_is_named_with_the_way_out() -> None:
    with pytest.raises(AscendPdError, match=r"no-such-program: not found. Run `make tools`"):
        run_json(["no-such-program"])


def test_a_program_that_fails_gives_its_last_line() -> None:
    with pytest.raises(AscendPdError, match=r"error: no stack named x$"):
        run_json(python("import sys; print('trace\\nerror: no stack named x', file=sys.stderr); sys.exit(2)"))


def test_a_program_that_fails_silently_gives_its_code() -> None:
    with pytest.raises(AscendPdError, match=r": 7$"):
        run_json(python("raise SystemExit(7)"))


def test_other_output_than_json_is_refused() -> None:
    with pytest.raises(AscendPdError, match="printed no JSON"):
        run_json(python("print('Updating')"))


def test_a_program_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "TIMEOUT_S", 0.2)

    with pytest.raises(AscendPdError, match="no answer within"):
        run_json(python("import signal; signal.pause()"))
