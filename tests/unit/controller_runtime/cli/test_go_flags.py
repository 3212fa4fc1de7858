# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.cli.go_flags import normalise

SWITCHES = {"isCompress", "version"}


@pytest.mark.parametrize(
    "given, expected",
    [
        (["-logLevel=1"], ["--logLevel=1"]),
        (["--logLevel", "-1"], ["--logLevel", "-1"]),
        (["-logLevel", "1"], ["--logLevel", "1"]),
        (["-isCompress"], ["--isCompress"]),
        (["--isCompress=true"], ["--isCompress"]),
        (["-isCompress=FALSE"], ["--no-isCompress"]),
        (["--isCompress=1", "--isCompress=f"], ["--isCompress", "--no-isCompress"]),
        (["--isCompress=maybe"], ["--isCompress=maybe"]),
        (["--healthz-address=[::1]:11254"], ["--healthz-address=[::1]:11254"]),
        (["--", "-", "-h", "word", "-5"], ["--", "-", "-h", "word", "-5"]),
        ([], []),
    ],
)
def test_go_spelling_is_understood(given: list[str], expected: list[str]) -> None:
    assert normalise(given, SWITCHES) == expected
