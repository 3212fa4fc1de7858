# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from lab.commands import run, wait_until
from lab.errors import LabError


def test_a_failed_program_is_shown_with_its_words_and_output() -> None:
    with pytest.raises(LabError, match=r"`sh -c echo why; exit 3` ended with 3:\nwhy"):
        run("sh", "-c", "echo why; exit 3")


def test_a_failure_that_is_expected_is_no_error() -> None:
    assert run("sh", "-c", "echo out; exit 3", check=False) == "out\n"


def test_a_missing_program_is_named() -> None:
    with pytest.raises(LabError, match="no-such-program is not installed"):
        run("no-such-program")


def test_a_program_that_hangs_is_given_up() -> None:
    with pytest.raises(LabError, match="ran longer than"):
        run("sh", "-c", "while :; do :; done", timeout_s=0.05)


def test_waiting_ends_with_the_condition_or_with_a_hint_where_to_look() -> None:
    answers = iter([False, True])
    wait_until("done", lambda: next(answers), 5, period_s=0)

    with pytest.raises(LabError, match=r"never: not so after 0 s\. Read the log\."):
        wait_until("never", lambda: False, 0, "Read the log.", period_s=0)
