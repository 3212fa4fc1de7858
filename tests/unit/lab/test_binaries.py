# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from lab import binaries
from lab.errors import LabError


def _folder(path: Path, *without: str) -> Path:
    path.mkdir()
    for name in binaries.REQUIRED:
        if name not in without:
            (path / name).touch(mode=0o755)
    return path


def test_a_folder_without_a_program_is_refused_by_the_programs_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_BIN", str(_folder(tmp_path / "bin", "kube-router", "etcd")))

    with pytest.raises(LabError, match="without etcd, kube-router"):
        binaries.find_folder()


def test_the_given_folder_wins_and_the_recorded_one_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, recorded = _folder(tmp_path / "given"), _folder(tmp_path / "recorded")
    monkeypatch.setattr(binaries, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.delenv("LAB_BIN", raising=False)
    assert binaries.find_folder(recorded) == recorded

    monkeypatch.setenv("LAB_BIN", str(given))
    assert binaries.find_folder(recorded) == given


def test_missing_system_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(LabError, match="not installed: containerd, runc"):
        binaries.check_system()
