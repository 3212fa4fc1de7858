# SPDX-License-Identifier: Apache-2.0
"""The one file format of every bench: build/bench/<name>.json."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from controller_runtime.api.base import Model

BENCH_DIRECTORY = Path(__file__).resolve().parents[2] / "build" / "bench"
GIB = 1024**3


class Row(Model):
    """One measure. `bar`: what was promised, as text; None when nothing was. `n`: samples behind `value`."""

    measure: str
    value: float
    unit: str
    bar: str | None = None
    holds: bool | None = None
    n: int
    min: float
    max: float


class Machine(Model):
    """Where it ran. `load`: one-minute load average when the bench began."""

    cores: int
    memory_gib: float
    load: float


class Result(Model):
    """One run of one bench."""

    bench: str
    machine: Machine
    rows: tuple[Row, ...]


def machine() -> Machine:
    """Describe this machine now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(cores=os.cpu_count() or 1, memory_gib=round(memory / GIB, 1), load=round(os.getloadavg()[0], 2))


def row(measure: str, samples: Sequence[float], unit: str, *, at_most: float | None = None) -> Row:
    """Make a row of the median of samples; `at_most` is its bar."""
    value = statistics.median(samples)
    return Row(
        measure=measure,
        value=round(value, 3),
        unit=unit,
        bar=None if at_most is None else f"<= {at_most:g}",
        holds=None if at_most is None else value <= at_most,
        n=len(samples),
        min=round(min(samples), 3),
        max=round(max(samples), 3),
    )


def write(result: Result) -> Path:
    """Write the result and return its path."""
    BENCH_DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = BENCH_DIRECTORY / f"{result.bench}.json"
    path.write_text(result.model_dump_json(indent=2) + "\n")
    return path


def table(result: Result) -> str:
    """Show the rows to a person."""
    lines = [f"{result.bench}: {result.machine.cores} cores, {result.machine.memory_gib} GiB, load {result.machine.load} at the start"]
    for found in result.rows:
        verdict = {None: "", True: "holds", False: "DOES NOT HOLD"}[found.holds]
        spread = f"{found.min:g} to {found.max:g}, n={found.n}"
        lines.append(f"  {found.measure:<28} {found.value:>9.3f} {found.unit:<7} {spread:<26} {found.bar or '':<8} {verdict}".rstrip())
    return "\n".join(lines)
