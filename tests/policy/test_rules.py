# SPDX-License-Identifier: Apache-2.0
"""Every rule against its fixtures: what passes, and exactly which places fail.

A failing fixture names each place it expects in a comment, `# expect: <place>`.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
import yaml

from controller_runtime.rules import ALL, CROSS, judge, judge_all

FIXTURES = Path(__file__).parent / "fixtures"
PASSING = sorted(FIXTURES.glob("*/pass*.yaml"))
FAILING = sorted(FIXTURES.glob("*/fail*.yaml"))
TODAY = date(2026, 1, 1)


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def places(path: Path) -> list[str]:
    """Places of the fixture's rule, in the order of the report."""
    objects = list(yaml.safe_load_all(path.read_text()))
    single = [
        violation.finding.place
        for rule in ALL
        if rule.id == path.parent.name
        for obj in objects
        for violation in judge(rule, obj, today=TODAY)
    ]
    crossing = [
        violation.finding.place for rule in CROSS if rule.id == path.parent.name for _, violation in judge_all(rule, objects, today=TODAY)
    ]
    return single + crossing


@pytest.mark.parametrize("path", PASSING, ids=name)
def test_a_good_object_passes(path: Path) -> None:
    assert places(path) == []


@pytest.mark.parametrize("path", FAILING, ids=name)
def test_a_bad_object_fails_at_exactly_the_bad_places(path: Path) -> None:
    expected = re.findall(r"^# expect: (.+)$", path.read_text(), re.MULTILINE)

    assert expected
    assert sorted(set(places(path))) == sorted(expected)


@pytest.mark.parametrize("rule_id", sorted({rule.id for rule in ALL} | {rule.id for rule in CROSS}))
def test_every_rule_has_a_passing_and_a_failing_fixture(rule_id: str) -> None:
    assert [path for path in PASSING if path.parent.name == rule_id]
    assert [path for path in FAILING if path.parent.name == rule_id]


def test_every_fixture_belongs_to_a_rule() -> None:
    assert {path.parent.name for path in FIXTURES.glob("*/*.yaml")} == {rule.id for rule in ALL}


@pytest.mark.parametrize("path", FAILING, ids=name)
def test_no_report_shows_a_secret(path: Path) -> None:
    objects = list(yaml.safe_load_all(path.read_text()))
    report = " ".join(str(violation) for rule in ALL for obj in objects for violation in judge(rule, obj, today=TODAY))

    for secret in ("hunter2", "abcdef", "k-123", "correct horse", "1234", "MIIEvQ", "BEGIN "):
        assert secret not in report
