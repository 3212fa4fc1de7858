# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import io
import os
import shutil
import time
from pathlib import Path

import pytest

from controller_runtime.cli.log_file import LogFile, LogFileSettings
from controller_runtime.errors import ConfigError


def settings(directory: Path, *, max_backups: int = 3, compress: bool = False, rotate_bytes: int = 30) -> LogFileSettings:
    return LogFileSettings(directory / "made" / "o.log", 7, max_backups, compress, rotate_bytes)


def write_lines(wanted: LogFileSettings, *lines: str) -> str:
    terminal = io.StringIO()
    with LogFile(wanted, terminal) as stream:
        for line in lines:
            stream.write(f"{line}\n")
    return terminal.getvalue()


def backups(wanted: LogFileSettings) -> list[Path]:
    return sorted(path for path in wanted.path.parent.iterdir() if path != wanted.path)


def test_every_line_is_on_the_terminal_and_in_the_file(tmp_path: Path) -> None:
    wanted = settings(tmp_path)

    assert write_lines(wanted, "a", "ä") == "a\nä\n"
    assert wanted.path.read_text() == "a\nä\n"
    assert wanted.path.stat().st_mode & 0o777 == 0o640


def test_a_file_of_an_earlier_life_is_continued(tmp_path: Path) -> None:
    wanted = settings(tmp_path)

    write_lines(wanted, "a")
    write_lines(wanted, "b")

    assert wanted.path.read_text() == "a\nb\n"


def test_a_full_file_rotates_between_lines_and_the_newest_backups_stay(tmp_path: Path) -> None:
    wanted = settings(tmp_path, max_backups=2)

    write_lines(wanted, *(f"{number:020d}" for number in range(5)))

    assert [path.read_text() for path in [*backups(wanted), wanted.path]] == [f"{number:020d}\n" for number in (2, 3, 4)]
    assert {path.stat().st_mode & 0o777 for path in backups(wanted)} == {0o440}


def test_backups_are_compressed_when_asked(tmp_path: Path) -> None:
    wanted = settings(tmp_path, compress=True)

    write_lines(wanted, "a" * 20, "b" * 20)

    (backup,) = backups(wanted)
    assert backup.suffix == ".gz"
    assert gzip.decompress(backup.read_bytes()).decode() == "a" * 20 + "\n"


def test_backups_past_their_age_are_removed(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    write_lines(wanted, "a" * 20, "b" * 20)
    (old,) = backups(wanted)
    eight_days_ago = time.time() - 8 * 86400
    os.utime(old, (eight_days_ago, eight_days_ago))

    write_lines(wanted, "c" * 20)

    (kept,) = backups(wanted)
    assert kept.read_text() == "b" * 20 + "\n"


def test_a_disk_that_fails_costs_the_copy_and_not_the_line(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    terminal = io.StringIO()
    with LogFile(wanted, terminal) as stream:
        stream.write("a" * 20 + "\n")
        shutil.rmtree(wanted.path.parent)
        stream.write("b" * 20 + "\n")
        assert "b" * 20 in terminal.getvalue()
        assert "log file not written" in terminal.getvalue()

        wanted.path.parent.mkdir()
        stream.write("c" * 20 + "\n")
    assert wanted.path.read_text() == "c" * 20 + "\n"


def test_a_file_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    with LogFile(wanted, io.StringIO()) as stream:
        stream.write("a" * 20 + "\n")
        wanted.path.unlink()
        stream.write("b" * 20 + "\n")

    assert wanted.path.read_text() == "b" * 20 + "\n"
    assert backups(wanted) == []


@pytest.mark.parametrize("path", ["relative.log", "/tmp/../etc/o.log"])
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is no absolute path"):
        LogFile(LogFileSettings(Path(path), 7, 3, False), io.StringIO())


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be written"):
        LogFile(LogFileSettings(tmp_path / "file" / "o.log", 7, 3, False), io.StringIO())
