# SPDX-License-Identifier: Apache-2.0
"""Progress counts on a terminal and stays readable in a log."""

from __future__ import annotations

import io

from tools.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_log_gets_a_sign_of_life_every_half_minute_only() -> None:
    stream = io.StringIO()
    progress = Progress(12, stream)
    progress.begin()
    for second in range(65):
        progress.alive("etcd", "building", second)
    progress.done("etcd", "built", 64.6)
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert [line[-2] for line in lines] == ["30", "60", "65"]
    assert lines[-1][:4] == ["[", "1/12]", "etcd", "built"]


def test_terminal_line_counts_in_place_and_is_finished() -> None:
    stream = Terminal()
    progress = Progress(1, stream)
    progress.begin()
    progress.alive("etcd", "building", 1)
    progress.alive("etcd", "building", 2)
    assert "\n" not in stream.getvalue()
    progress.done("etcd", "built", 3)
    assert stream.getvalue().count("\n") == 1
    assert "building 2 s\r\x1b[K[1/1] etcd" in stream.getvalue()


def test_instant_result_shows_no_time() -> None:
    stream = io.StringIO()
    progress = Progress(1, stream)
    progress.begin()
    progress.done("etcd", "cached", 0.01)
    assert stream.getvalue().rstrip().endswith("cached")


def test_next_binary_starts_its_own_clock() -> None:
    stream = io.StringIO()
    progress = Progress(2, stream)
    progress.begin()
    progress.alive("one", "building", 40)
    progress.begin()
    progress.alive("two", "building", 31)
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["one", "two"]
