# SPDX-License-Identifier: Apache-2.0
"""The doctor names every fault with its remedy, in text and in JSON, and tells by its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.doctor import Check, render_json, render_text
from tools.kernel import FEATURES, Feature, cgroup_version, try_feature
from tools.places import CHECKOUT

GOOD = Check("go", True, "go1.26.8")
BAD = Check("root", False, "uid 1000", "Run as root.")
UNKNOWN = Check("kernel veth", None, "not checked without root", "Run `make doctor` as root.")


def test_report_has_the_remedy_below_each_fault() -> None:
    assert render_text([GOOD, BAD, UNKNOWN]).splitlines() == [
        "ok    go           go1.26.8",
        "FAIL  root         uid 1000",
        "                   fix: Run as root.",
        "?     kernel veth  not checked without root",
        "                   fix: Run `make doctor` as root.",
        "2 of 3 checks need attention",
    ]


def test_report_without_faults_says_so() -> None:
    assert render_text([GOOD]).endswith("all 1 checks passed")


@pytest.mark.parametrize(("checks", "ok"), [([GOOD], True), ([GOOD, BAD], False), ([GOOD, UNKNOWN], False)])
def test_json_is_ok_only_when_every_check_is(checks: list[Check], ok: bool) -> None:
    report = json.loads(render_json(checks))
    assert report["ok"] is ok
    assert report["checks"][0] == {"name": "go", "ok": True, "found": "go1.26.8", "fix": ""}


def doctor(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a machine without Go, binaries or packages on PATH."""
    return subprocess.run(
        [sys.executable, "-m", "tools", "doctor", *options],
        cwd=CHECKOUT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_machine_without_go_fails_with_what_to_install(tmp_path: Path) -> None:
    answer = doctor(tmp_path, "--json")
    assert answer.returncode == 1
    checks = {check["name"]: check for check in json.loads(answer.stdout)["checks"]}
    assert not checks["go"]["ok"]
    assert "Install Go 1." in checks["go"]["fix"]
    assert not checks["binaries"]["ok"]
    assert "make tools" in checks["binaries"]["fix"]
    assert checks["python"]["ok"]
    assert all(check["fix"] for check in checks.values() if not check["ok"])
    assert {f"kernel {feature.name}" for feature in FEATURES} <= checks.keys()


def test_doctor_changes_nothing(tmp_path: Path) -> None:
    doctor(tmp_path)
    assert os.listdir(tmp_path) == []


def test_feature_that_fails_says_why() -> None:
    assert try_feature(Feature("none", "--no-such-namespace", "true", "none"), os.environ) != ""


@pytest.mark.parametrize(("entry", "version"), [("cgroup.controllers", 2), ("memory/", 1), (None, 0)])
def test_cgroup_version_is_read_from_what_is_mounted(tmp_path: Path, entry: str | None, version: int) -> None:
    if entry and entry.endswith("/"):
        (tmp_path / entry).mkdir()
    elif entry:
        (tmp_path / entry).touch()
    assert cgroup_version(tmp_path) == version
