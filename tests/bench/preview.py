# SPDX-License-Identifier: Apache-2.0
"""How long a preview takes: nothing, the same resources declared bare, our program, our program with the policy pack.

Real engine, real providers, the cluster of the deployed stack; `make bench-preview`. Every program runs on a copy of
the state in a backend of its own, so the stack is only read. Two situations: `steady`, the stack is deployed and nothing
changed, which must preview as nothing to do; `first`, the state is empty and everything would be created.
Runs are interleaved, one untimed round first. Others use the machine too: of all rounds each program keeps the runs during
which everything else used least CPU, and the ratio of CPU times stands beside that of times.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.bench.bare_program import PROJECT, bare_program, bare_state, count_by_provider
from tests.bench.result import Machine, Result, machine, row, table, write

ROOT = Path(__file__).resolve().parents[2]
STACK = "dev"
ROUNDS, KEPT = 10, 5
TIMEOUT_S = 300
FLAGS = ("preview", "--non-interactive", "--suppress-outputs", "--color=never")
VS_BARE_BAR, PACK_BAR_S = 1.3, 1.5


class Sample(NamedTuple):
    """One run. `wall_s`: as a person waits. `cpu_s`: of all its processes. `others`: cores that all else used meanwhile."""

    wall_s: float
    cpu_s: float
    others: float


@dataclass(frozen=True)
class Case:
    """One program in one situation."""

    name: str
    directory: Path
    stack: str
    config: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    flags: Sequence[str] = ()
    samples: list[Sample] = field(default_factory=list)

    def calmest(self) -> list[Sample]:
        """The runs that count."""
        return sorted(self.samples, key=lambda sample: sample.others)[:KEPT]

    def values(self, measure: str) -> list[float]:
        """One field of the runs that count."""
        return [getattr(sample, measure) for sample in self.calmest()]


class BenchError(Exception):
    """What was to be measured does not run."""


@dataclass(frozen=True)
class Workshop:
    """A backend, a home of configuration files and the projects to measure, all below `root`."""

    root: Path
    environment: Mapping[str, str]

    @classmethod
    def open(cls, root: Path) -> Workshop:
        """Make an empty backend. The passphrase is the stack's own, so that its state stays encrypted when copied."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_OPTION_") and name != "PULUMI_STACK"}
        (root / "state").mkdir()
        return cls(root, kept | {"PULUMI_BACKEND_URL": (root / "state").as_uri()})

    def project(self, name: str, program: str) -> Path:
        """Write a project that runs in our virtual environment."""
        directory = self.root / name
        directory.mkdir()
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": str(ROOT / ".venv")}}
        (directory / "Pulumi.yaml").write_text(yaml.safe_dump({"name": name, "runtime": runtime}))
        (directory / "__main__.py").write_text(program)
        return directory

    def stack(self, project: str, stack: str, config: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> Path:
        """Make a stack, in a folder of its own since this writes its file; return the file."""
        folder = self.root / f"file-{project}-{stack}"
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text(f"name: {project}\nruntime: python\n")
        self.pulumi(folder, "stack", "init", stack, "--no-select", "--non-interactive")
        file = folder / f"Pulumi.{stack}.yaml"
        file.write_text(file.read_text() + yaml.safe_dump({"config": dict(config)}))
        if state is not None:
            self.pulumi(folder, "stack", "import", "--stack", stack, text=json.dumps(state))
        return file

    def pulumi(self, directory: Path, *arguments: str, text: str | None = None) -> str:
        """Run the command line and return what it prints."""
        return run(directory, self.environment, *arguments, text=text)

    def measure(self, case: Case) -> Sample:
        """Preview once."""
        environment = {**self.environment, "PULUMI_OPTION_CONFIG_FILE": str(case.config), **case.extra}
        started, ours, all_of_it = time.monotonic(), _children_cpu_s(), _machine_cpu_s()
        run(case.directory, environment, *FLAGS, "--stack", case.stack, *case.flags)
        wall_s, cpu_s = time.monotonic() - started, _children_cpu_s() - ours
        return Sample(wall_s, cpu_s, (_machine_cpu_s() - all_of_it - cpu_s) / wall_s)


def run(directory: Path, environment: Mapping[str, str], *arguments: str, text: str | None = None) -> str:
    """Run `pulumi` and return its standard output.

    Raises:
        BenchError: it failed; carries the last lines it printed.
    """
    done = subprocess.run(
        ["pulumi", *arguments],
        cwd=directory,
        env=dict(environment),
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise BenchError(f"pulumi {' '.join(arguments)} in {directory} ended with {done.returncode}:\n{tail}")
    return done.stdout


def cases(workshop: Workshop) -> list[Case]:
    """Set up every program and every stack."""
    state = json.loads(run(ROOT, os.environ, "stack", "export", "--stack", STACK))
    in_plain = json.loads(run(ROOT, os.environ, "stack", "export", "--stack", STACK, "--show-secrets"))
    config = yaml.safe_load(Path(os.environ["PULUMI_OPTION_CONFIG_FILE"]).read_text())["config"]
    print(f"{STACK}: {count_by_provider(state)}", flush=True)
    empty = workshop.project("empty", "import pulumi\n")
    bare = workshop.project(PROJECT, bare_program(in_plain))
    same = ("--expect-no-changes",)
    ours = workshop.stack("ascend-pd", STACK, config, state)
    ours_first = workshop.stack("ascend-pd", "first", config)
    pack = {"PULUMI_OPTION_POLICY_PACK": str(ROOT / "policies")}
    return [
        Case("empty", empty, "first", workshop.stack("empty", "first", {})),
        Case("bare_steady", bare, STACK, workshop.stack(PROJECT, STACK, {}, bare_state(state, STACK)), flags=same),
        Case("ours_steady", ROOT, STACK, ours, flags=same),
        Case("ours_steady_pack", ROOT, STACK, ours, pack, same),
        Case("bare_first", bare, "first", workshop.stack(PROJECT, "first", {})),
        Case("ours_first", ROOT, "first", ours_first),
        Case("ours_first_pack", ROOT, "first", ours_first, pack),
    ]


def report(found: Sequence[Case], where: Machine) -> Result:
    """Turn samples into measures. A ratio or difference is against the median of the other program."""
    by_name = {case.name: case for case in found}

    def ratio(above: str, below: str, measure: str = "wall_s") -> list[float]:
        base = statistics.median(by_name[below].values(measure))
        return [value / base for value in by_name[above].values(measure)]

    def extra(above: str, below: str, measure: str = "wall_s") -> list[float]:
        base = statistics.median(by_name[below].values(measure))
        return [value - base for value in by_name[above].values(measure)]

    return Result(
        bench="preview",
        machine=where,
        rows=(
            row("preview_vs_bare", ratio("ours_steady", "bare_steady"), "ratio", at_most=VS_BARE_BAR),
            row("preview_vs_bare_first", ratio("ours_first", "bare_first"), "ratio", at_most=VS_BARE_BAR),
            row("preview_vs_bare_cpu", ratio("ours_steady", "bare_steady", "cpu_s"), "ratio"),
            row("preview_vs_bare_first_cpu", ratio("ours_first", "bare_first", "cpu_s"), "ratio"),
            row("preview_vs_empty", ratio("ours_steady", "empty"), "ratio"),
            row("policy_pack_s", extra("ours_steady_pack", "ours_steady"), "s", at_most=PACK_BAR_S),
            row("policy_pack_first_s", extra("ours_first_pack", "ours_first"), "s", at_most=PACK_BAR_S),
            row("policy_pack_cpu_s", extra("ours_steady_pack", "ours_steady", "cpu_s"), "s"),
            *(row(f"{case.name}_s", case.values("wall_s"), "s") for case in found),
            *(row(f"{case.name}_cpu_s", case.values("cpu_s"), "s") for case in found),
            row("others_cores", [value for case in found for value in case.values("others")], "cores"),
        ),
    )


def main() -> int:
    """Measure, print, write build/bench/preview.json. Exit 1 when a bar does not hold, 2 when nothing could be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"timed rounds, of which the calmest {KEPT} runs of each program count")
    options = parser.parse_args()
    where = machine()
    with tempfile.TemporaryDirectory(prefix="ascend-pd-bench-") as root:
        try:
            workshop = Workshop.open(Path(root))
            found = cases(workshop)
            for number in range(options.rounds + 1):
                samples = {case.name: workshop.measure(case) for case in found}
                if number > 0:
                    for case in found:
                        case.samples.append(samples[case.name])
                shown = ", ".join(f"{name} {sample.wall_s:.1f} s ({sample.others:.1f})" for name, sample in samples.items())
                print(f"round {number} of {options.rounds}{' (warms up)' if number == 0 else ''}: {shown}", flush=True)
        except BenchError as error:
            print(f"bench-preview: {error}\nThe deployed stack must be what the program declares: run `make up` first.", file=sys.stderr)
            return 2
    result = report(found, where)
    print(table(result))
    print(write(result))
    return 1 if any(measured.holds is False for measured in result.rows) else 0


def _machine_cpu_s() -> float:
    """CPU seconds the whole machine has used. The first line of /proc/stat: user nice system idle iowait ..., in ticks."""
    ticks = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
