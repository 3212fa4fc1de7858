# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from lab import node
from lab.state import Lab


def test_only_a_node_with_npus_runs_the_device_plugin(lab: Lab) -> None:
    infra, decode = lab.nodes

    assert "npu_plugin" not in node.script(lab, infra)
    assert "-m simulator.npu_plugin --resource huawei.com/Ascend910 --count 8" in node.script(lab, decode)


def test_a_node_registers_with_the_labels_of_its_class(lab: Lab) -> None:
    words = node.script(lab, lab.nodes[1]).split()

    labels = next(word for word in words if word.startswith("--node-labels=")).removeprefix("--node-labels=").split(",")
    assert "ascend-pd/pool=decode" in labels
    assert "hardware-type=800I-A2-64G" in labels


def test_every_node_enforces_network_policies_only(lab: Lab) -> None:
    line = next(line for line in node.script(lab, lab.nodes[0]).splitlines() if line.startswith("supervise kube-router"))

    assert {"--run-firewall=true", "--run-router=false", "--run-service-proxy=false"} <= set(line.split())


def test_mounts_become_shared_only_after_the_nodes_own_disk_is_in_place(lab: Lab) -> None:
    lines = node.script(lab, lab.nodes[0]).splitlines()

    own_disk = next(number for number, line in enumerate(lines) if line.endswith("/var /var"))
    assert own_disk < lines.index("mount --make-rshared /")
    assert f"mount --bind /run/lab-keep/0 {lab.root}" in lines
