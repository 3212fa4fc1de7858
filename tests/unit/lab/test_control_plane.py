# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lab import control_plane
from lab.state import Lab


def test_the_scheduler_serves_pods_that_name_volcano() -> None:
    config = yaml.safe_load(control_plane.scheduler_config(Path("/pki/scheduler.kubeconfig")))

    assert [profile["schedulerName"] for profile in config["profiles"]] == ["default-scheduler", "volcano"]
    assert config["leaderElection"] == {"leaderElect": False}


def test_dns_listens_on_the_labs_address_and_port(lab: Lab) -> None:
    corefile = control_plane.corefile(lab)

    assert corefile.startswith(".:26453 {")
    assert "bind 10.99.4.1" in corefile


def test_nothing_listens_on_all_addresses(lab: Lab) -> None:
    script = control_plane.script(lab, lab.root / "cp")

    assert "0.0.0.0" not in script
    assert "--bind-address=10.99.4.1" in script
    assert "--listen-client-urls=http://127.0.0.1:26479" in script


def test_clients_of_the_api_server_start_after_it_is_ready(lab: Lab) -> None:
    lines = control_plane.script(lab, lab.root / "cp").splitlines()

    ready = next(number for number, line in enumerate(lines) if line.startswith("until curl"))
    names = [line.split()[1] for line in lines[ready:] if line.startswith("supervise")]
    assert names == ["kube-controller-manager", "kube-scheduler", "coredns", "volumes"]


def test_kwok_runs_only_for_fake_nodes(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.binaries.mkdir()
    (lab.binaries / "kwok").touch()
    stages = tmp_path / "stages.yaml"
    stages.touch()
    monkeypatch.setenv("LAB_KWOK_STAGES", str(stages))

    assert "supervise kwok" not in control_plane.script(lab, lab.root / "cp")
    assert "supervise kwok" in control_plane.script(replace(lab, fake_nodes=3), lab.root / "cp")
