# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from lab import fake_nodes
from lab.errors import LabError
from lab.state import Lab


def test_fake_nodes_are_tainted_and_alternate_between_prefill_and_decode() -> None:
    first, second = fake_nodes.fake_node(1), fake_nodes.fake_node(2)

    assert first["metadata"]["labels"]["ascend-pd/pool"] == "prefill"
    assert second["metadata"]["labels"]["ascend-pd/pool"] == "decode"
    assert first["spec"]["taints"] == [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]
    assert first["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}


def test_the_stages_lie_beside_the_real_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_KWOK_STAGES", raising=False)
    real, links = tmp_path / "real", tmp_path / "links"
    real.mkdir()
    links.mkdir()
    (real / "kwok").touch()
    (links / "kwok").symlink_to(real / "kwok")
    with pytest.raises(LabError, match="Run `make tools`"):
        fake_nodes.stage_file(links)

    (real / "kwok-stages.yaml").touch()

    assert fake_nodes.stage_file(links) == real / "kwok-stages.yaml"


def test_fake_nodes_without_kwok_are_refused(lab: Lab) -> None:
    with pytest.raises(LabError, match="which --fake-nodes needs"):
        fake_nodes.command(lab)
