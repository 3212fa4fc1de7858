# SPDX-License-Identifier: Apache-2.0
"""`ascend-pd rollout plan` on files: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from controller_runtime.cli import rollout
from controller_runtime.cli.ascend_pd import app
from controller_runtime.errors import ConfigError
from controller_runtime.kube.kind import Object
from tests.support.infer import pod_template, role, service_object, set_object


def pd(image: str, decode: int = 2) -> list[Object]:
    template = pod_template(None, None, {"name": "infer", "image": image})
    return [role(name, count, spec={"template": template}) for name, count in (("prefill", 2), ("decode", decode))]


def run(directory: Path, new: Object, old: Object, *more: str) -> Any:
    for name, obj in (("new", new), ("old", old)):
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(obj))
    return CliRunner().invoke(app, ["rollout", "plan", "-f", f"{directory}/new.yaml", "--from", f"{directory}/old.yaml", *more])


def test_a_plan_lists_every_step_and_the_least_that_serves(tmp_path: Path) -> None:
    done = run(tmp_path, set_object("x", pd("b"), 3), set_object("x", pd("a"), 3))

    assert done.exit_code == 0
    assert done.stdout.splitlines()[:3] == [
        "InferServiceSet ns/x, each of 3 services",
        "  1. prefill: update 1",
        "     prefill 1 new, 1 old, 1 serving; decode 0 new, 2 old, 2 serving (step 0 of 4)",
    ]
    assert done.stdout.splitlines()[-1] == "  least serving: prefill 1, decode 1"


def test_a_plan_that_stops_decode_fails_with_its_remedy(tmp_path: Path) -> None:
    done = run(tmp_path, service_object("s", pd("b", 1)), service_object("s", pd("a", 1)), "--output", "json")

    assert done.exit_code == 1
    assert json.loads(done.stdout)["objects"][0]["plan"]["minimumServing"] == {"prefill": 1, "decode": 0}
    assert "InferService s: role decode" in done.stderr
    assert "maxSurge" in done.stderr


def test_an_update_under_way_is_told(tmp_path: Path) -> None:
    live = {**service_object("s", pd("a")), "status": {"rollout": {"step": 1, "steps": 4}}}

    assert "An update is under way (step 1 of 4)" in run(tmp_path, service_object("s", pd("b")), live).stdout


def test_what_is_applied_now_is_asked_from_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def answer(command: list[str]) -> Any:
        asked.append(command)
        return {"items": [service_object("s", pd("a"))]}

    monkeypatch.setattr(rollout, "run_json", answer)
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(service_object("s", pd("b"))))

    done = CliRunner().invoke(app, ["rollout", "plan", "-f", f"{tmp_path}/new.yaml"])

    assert "1. prefill: update 1" in done.stdout
    assert asked[0][:5] == ["kubectl", "get", "inferservices.mindcluster.huawei.com", "-n", "ns"]


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("kind: Pod", "has no InferServiceSet or InferService", id="nothing-of-ours"),
        pytest.param("{", "cannot be read", id="no-yaml"),
        pytest.param(yaml.safe_dump(service_object("s", [{**role("r"), "replicas": -1}])), "replicas", id="invalid"),
    ],
)
def test_a_file_that_cannot_be_planned_says_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "new.yaml").write_text(text)
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(service_object("s")))

    done = CliRunner().invoke(app, ["rollout", "plan", "-f", f"{tmp_path}/new.yaml", "--from", f"{tmp_path}/old.yaml"])

    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)
