# SPDX-License-Identifier: Apache-2.0
"""Versions of Go are compared as numbers, flags are the ones that shape the binary, failures are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tool_workshop import HELLO
from tools.errors import ToolsError
from tools.go_command import build_flags, explain, highest_required_version, required_version, version_tuple


@pytest.mark.parametrize(("older", "newer"), [("go1.26.8", "1.26.10"), ("1.9", "go1.26"), ("1.26", "go1.26.0"), ("garbage", "1.0")])
def test_versions_compare_as_numbers(older: str, newer: str) -> None:
    assert version_tuple(older) < version_tuple(newer)


def test_flags_carry_tags_and_values() -> None:
    assert build_flags(HELLO) == ["-trimpath", "-ldflags", "-s -w -X main.greeting=hi"]


def test_highest_version_of_all_families_is_the_one_to_install(tmp_path: Path) -> None:
    for family, version in {"a": "1.9", "b": "1.26.6", "c": "1.26"}.items():
        (tmp_path / family).mkdir()
        (tmp_path / family / "go.mod").write_text(f"module {family}\n\ngo {version}\n")
    assert highest_required_version(tmp_path) == "1.26.6"


def test_go_mod_without_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    with pytest.raises(ToolsError, match="no `go` line"):
        required_version(tmp_path / "go.mod")


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("write /x: no space left on device", "disk is full"),
        ("compile: signal: killed", "memory"),
        ("dial tcp 10.0.0.1:443: connection refused", "GOPROXY"),
        ("verifying module: checksum mismatch", "go.sum"),
        ("undefined: x", "goes on where it stopped"),
    ],
)
def test_known_failures_are_explained(output: str, advice: str) -> None:
    assert advice in explain(output)
