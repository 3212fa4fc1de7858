# SPDX-License-Identifier: Apache-2.0
"""Stack configurations: the valid one reads, every broken one gets its exact report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_runtime.api.stack_rules import read_stack
from controller_runtime.errors import ConfigError
from tests.support.stacks import stack

ROOT = Path(__file__).resolve().parents[4]
CASES: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "data" / "broken_stacks.yaml").read_text())


def test_the_valid_stack_reads() -> None:
    assert read_stack(stack()).workload.decode.instances == 1


@pytest.mark.parametrize("file", ["Pulumi.dev.yaml", "Pulumi.example-prod.yaml"])
def test_every_stack_file_of_the_project_reads(file: str) -> None:
    raw = yaml.safe_load((ROOT / file).read_text())["config"]["ascend-pd:stack"]

    assert read_stack(raw).network.api_server


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_a_broken_stack_gets_its_exact_report(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        read_stack(stack(case["change"]))

    assert list(refused.value.problems) == case["report"]


def test_every_report_says_how_to_fix() -> None:
    assert len(CASES) >= 25
    for case in CASES:
        assert all(sentence.startswith("ascend-pd:stack.") and sentence.count(". ") >= 1 for sentence in case["report"]), case["case"]
