# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from lab import kernel_settings


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Settings as before any lab."""
    root = tmp_path / "proc"
    for name in (*kernel_settings.SETTINGS, "kernel/random/boot_id"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("0\n")
    return root


def test_what_kubelets_changed_is_put_back(proc: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    kernel_settings.remember(record, proc)
    (proc / "vm/overcommit_memory").write_text("1\n")

    kernel_settings.restore(record, proc)

    assert (proc / "vm/overcommit_memory").read_text() == "0"
    assert not record.exists()


def test_a_second_lab_does_not_remember_what_the_first_changed(proc: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    kernel_settings.remember(record, proc)
    (proc / "kernel/panic").write_text("10\n")
    kernel_settings.remember(record, proc)

    kernel_settings.restore(record, proc)

    assert (proc / "kernel/panic").read_text() == "0"


def test_a_record_of_an_earlier_boot_is_not_applied(proc: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    kernel_settings.remember(record, proc)
    (proc / "kernel/random/boot_id").write_text("1\n")
    (proc / "kernel/panic").write_text("10\n")

    kernel_settings.restore(record, proc)

    assert (proc / "kernel/panic").read_text() == "10\n"
    assert not record.exists()


def test_a_record_of_an_earlier_boot_is_written_anew(proc: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    kernel_settings.remember(record, proc)
    (proc / "kernel/random/boot_id").write_text("1\n")
    (proc / "kernel/panic").write_text("5\n")
    kernel_settings.remember(record, proc)
    (proc / "kernel/panic").write_text("10\n")

    kernel_settings.restore(record, proc)

    assert (proc / "kernel/panic").read_text() == "5"


def test_restoring_without_a_record_does_nothing(proc: Path, tmp_path: Path) -> None:
    kernel_settings.restore(tmp_path / "record.json", proc)
