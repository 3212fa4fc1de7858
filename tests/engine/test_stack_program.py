# SPDX-License-Identifier: Apache-2.0
"""The program itself under the real engine: what users see when settings are wrong, and the example site against a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller_runtime.api.stack_rules import read_stack
from controller_runtime.errors import ConfigError
from tests.support.control_plane import ControlPlane
from tests.support.declared_stack import CHECKOUT, stack_file
from tests.support.engine_stack import EngineStack
from tests.support.stacks import stack

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

POLICIES = CHECKOUT / "policies"
BROKEN = {"etcd.members": 4, "controller.replicas": 0, "workload.decode.pool": "fast", "etcd.foo": 1}
NPU = "huawei.com/Ascend910"


@pytest.fixture
def without_cluster(tmp_path: Path) -> EngineStack:
    return EngineStack.real(tmp_path, tmp_path / "no-kubeconfig")


def test_a_broken_stack_file_stops_the_preview_and_every_problem_is_printed(without_cluster: EngineStack) -> None:
    with pytest.raises(ConfigError) as refused:
        read_stack(stack(BROKEN))
    without_cluster.configure(stack(BROKEN))

    outcome = without_cluster.preview()

    assert outcome.code != 0
    assert len(refused.value.problems) == 4
    for problem in refused.value.problems:
        assert problem in outcome.text
    assert "Traceback" not in outcome.text
    assert "errored" in outcome.text
    assert "kubernetes:" not in outcome.text


def test_a_missing_stack_file_is_named(without_cluster: EngineStack) -> None:
    outcome = without_cluster.preview()

    assert outcome.code != 0
    assert "ascend-pd:stack" in outcome.text


def test_images_that_were_not_built_are_asked_for(without_cluster: EngineStack) -> None:
    without_cluster.change({})
    (without_cluster.project.directory / "build" / "images.json").unlink()

    outcome = without_cluster.preview()

    assert outcome.code != 0
    assert "build/images.json does not exist. Run `make images`;" in outcome.text
    assert "Traceback" not in outcome.text


def test_a_total_that_no_split_serves_is_refused_with_the_decisions_reason(without_cluster: EngineStack) -> None:
    without_cluster.change(
        {"workload.prefill.instances": None, "workload.decode.instances": None, "workload.total_instances": 4, "decision.prefill_slo_ms": 1}
    )

    outcome = without_cluster.preview()

    assert outcome.code != 0
    assert "ascend-pd:stack.workload.total_instances is 4: " in outcome.text
    assert "Traceback" not in outcome.text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with the nodes of the example site, reached by the context of its stack file."""
    plane = ControlPlane(tmp_path_factory.mktemp("site"))
    try:
        plane.start()
        config = stack_file("example-prod")
        for pool in config.pools.values():
            for node in pool.node_names:
                plane.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}))
                offer(plane, node, 8)
        kubeconfig = yaml.safe_load(plane.kubeconfig.read_text())
        kubeconfig["contexts"][0]["name"] = kubeconfig["current-context"] = config.cluster.context
        plane.kubeconfig.write_text(yaml.safe_dump(kubeconfig))
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def at_site(tmp_path: Path, site: ControlPlane) -> EngineStack:
    made = EngineStack.real(tmp_path, site.kubeconfig)
    made.project.environment["PULUMI_OPTION_POLICY_PACK"] = str(POLICIES)
    made.configure(yaml.safe_load((CHECKOUT / "Pulumi.example-prod.yaml").read_text())["config"]["ascend-pd:stack"])
    return made


def test_the_example_site_previews_with_the_policy_pack(at_site: EngineStack) -> None:
    outcome = at_site.preview()

    assert outcome.code == 0, outcome.text
    assert "ascend-pd@v" in outcome.text
    assert "2P:6D given in the configuration." in outcome.text
    assert "warning" not in outcome.text.lower().replace("0 warnings", ""), outcome.text


def test_a_node_that_offers_too_little_stops_the_preview_in_one_line(at_site: EngineStack, site: ControlPlane) -> None:
    offer(site, "npu-32g-02", 4)
    try:
        outcome = at_site.preview()
    finally:
        offer(site, "npu-32g-02", 8)

    assert outcome.code != 0
    assert f"node npu-32g-02 of pool prefill: offers 4 {NPU}, a pod requests 8." in outcome.text
    assert "Traceback" not in outcome.text


def offer(site: ControlPlane, node: str, npus: int) -> None:
    """What the device plugin of a node does."""
    status = {"allocatable": {NPU: str(npus)}, "capacity": {NPU: str(npus)}}
    site.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
