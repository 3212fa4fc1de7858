# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller_runtime.foundation.atomic_file import write_atomic


def test_content_and_mode_are_exact_whatever_the_umask(tmp_path: Path) -> None:
    target = tmp_path / "status.json"
    previous = os.umask(0o077)
    try:
        write_atomic(target, b"one")
        write_atomic(target, b"two", mode=0o644)
    finally:
        os.umask(previous)

    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == 0o644


def test_default_mode_is_group_readable_only(tmp_path: Path) -> None:
    write_atomic(tmp_path / "f", b"")

    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


def test_a_failed_write_keeps_the_old_content_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")

    def disk_full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(target, b"new")

    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_data_is_on_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(fd: int) -> None:
        steps.append("flush directory" if os.path.isdir(f"/proc/self/fd/{fd}") else "flush file")
        real_fsync(fd)

    def replace(source: Path, target: Path) -> None:
        steps.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomic(tmp_path / "f", b"data")

    assert steps == ["flush file", "rename", "flush directory"]


def test_a_symbolic_link_is_replaced_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"untouched")
    link = tmp_path / "link"
    link.symlink_to(outside)

    write_atomic(link, b"new")

    assert not link.is_symlink()
    assert outside.read_bytes() == b"untouched"
