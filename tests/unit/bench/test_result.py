# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import result
from tests.bench.result import Machine, Result, row, table, write

MACHINE = Machine(cores=2, memory_gib=24.0, load=0.5)


def test_a_row_is_the_median_with_its_spread() -> None:
    found = row("start_s", [5.0, 1.0, 2.0], "s")

    assert (found.value, found.min, found.max, found.n) == (2.0, 1.0, 5.0, 3)
    assert (found.bar, found.holds) == (None, None)


@pytest.mark.parametrize(("samples", "holds"), [([1.3], True), ([1.3001], False), ([9.0, 1.0, 1.0], True)])
def test_a_bar_holds_for_the_median(samples: list[float], holds: bool) -> None:
    found = row("preview_vs_bare", samples, "ratio", at_most=1.3)

    assert (found.bar, found.holds) == ("<= 1.3", holds)


def test_the_file_carries_every_field_of_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "BENCH_DIRECTORY", tmp_path / "bench")

    path = write(Result(bench="preview", machine=MACHINE, rows=(row("start_s", [1.0], "s"),)))

    assert path == tmp_path / "bench" / "preview.json"
    assert json.loads(path.read_text()) == {
        "bench": "preview",
        "machine": {"cores": 2, "memory_gib": 24.0, "load": 0.5},
        "rows": [{"measure": "start_s", "value": 1.0, "unit": "s", "bar": None, "holds": None, "n": 1, "min": 1.0, "max": 1.0}],
    }


def test_the_table_shouts_when_a_bar_does_not_hold() -> None:
    shown = table(Result(bench="preview", machine=MACHINE, rows=(row("a", [1.0], "s", at_most=2), row("b", [3.0], "s", at_most=2))))

    assert "<= 2     holds" in shown
    assert "<= 2     DOES NOT HOLD" in shown
