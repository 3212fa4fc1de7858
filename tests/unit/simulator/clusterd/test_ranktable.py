# SPDX-License-Identifier: Apache-2.0
"""Vectors of pods -> rank table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_runtime.api.rank_table import RankTable
from simulator.clusterd.pods import PodFacts, read_pod
from simulator.clusterd.ranktable import build_rank_table, device_address

NPU = "huawei.com/Ascend910"


def pod(name: str, ip: str, host: str = "10.0.0.1", npus: int = 0, node: str = "n1", **more: Any) -> dict[str, Any]:
    """A running pod. `more`: labels, annotations, deleted, phase."""
    metadata = {"name": name, "labels": more.get("labels", {}), "annotations": more.get("annotations", {})}
    if more.get("deleted"):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    containers = [{"name": "server", "resources": {"requests": {NPU: str(npus)}}} if npus else {"name": "c"}, {"name": "side"}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": more.get("phase", "Running"), "podIP": ip, "hostIP": host},
    }


def facts(*pods: dict[str, Any]) -> list[PodFacts]:
    return [found for one in pods if (found := read_pod(one)) is not None]


def labels(role: str, index: int) -> dict[str, str]:
    deploy = {"prefill": "2", "decode": "1"}[role]
    index_labels = {"inferservice-name": "pd-0", "instanceset-name": role, "instanceset-index": str(index)}
    return {f"infer.huawei.com/{key}": value for key, value in index_labels.items()} | {"grt-group/deploy-server": deploy}


CONTROL = facts(pod("mindie-ms-controller-a", "192.168.0.8"))
COORDINATION = facts(pod("mindie-ms-coordinator-a", "192.168.0.9"))
HETEROGENEOUS = facts(
    pod("server-p", "192.168.0.1", "10.0.0.1", npus=2, node="n1"), pod("server-d", "192.168.0.2", "10.0.0.2", npus=1, node="n2")
)
HARDWARE = {"n1": "800I-A2-32G", "n2": "800I-A2-64G"}


def ips(table: RankTable) -> dict[str, list[str]]:
    return {group.group_id: [server.server_ip for server in group.server_list] for group in table.server_group_list}


def test_a_heterogeneous_stack_has_one_server_group_with_hardware_types() -> None:
    table = json.loads(build_rank_table(CONTROL, COORDINATION, HETEROGENEOUS, HARDWARE).to_json())

    def device(host: str, index: int) -> dict[str, str]:
        return {
            "device_id": str(index),
            "device_ip": device_address(host, index),
            "device_logical_id": str(index),
            "rank_id": str(index),
        }

    assert table == {
        "version": "1.0",
        "status": "completed",
        "server_group_list": [
            {
                "group_id": "2",
                "server_count": "2",
                "server_list": [
                    {
                        "server_id": "10.0.0.2",
                        "server_ip": "192.168.0.2",
                        "hardware_type": "800I A2(64G)",
                        "device": [device("10.0.0.2", 0)],
                    },
                    {
                        "server_id": "10.0.0.1",
                        "server_ip": "192.168.0.1",
                        "hardware_type": "800I A2(32G)",
                        "device": [device("10.0.0.1", 0), device("10.0.0.1", 1)],
                    },
                ],
                "super_pod_list": [],
            },
            {
                "group_id": "1",
                "server_count": "1",
                "server_list": [{"server_id": "10.0.0.1", "server_ip": "192.168.0.8"}],
                "super_pod_list": [],
            },
            {
                "group_id": "0",
                "server_count": "1",
                "server_list": [{"server_id": "10.0.0.1", "server_ip": "192.168.0.9"}],
                "super_pod_list": [],
            },
        ],
    }


def test_labelled_pods_become_one_group_per_instance_prefill_first() -> None:
    servers = facts(
        pod("d-1-0", "192.168.1.3", npus=1, labels=labels("decode", 1)),
        pod("d-0-1", "192.168.1.2", npus=2, labels=labels("decode", 0)),
        pod("d-0-0", "192.168.1.1", npus=2, labels=labels("decode", 0)),
        pod("p-10-0", "192.168.2.2", npus=1, labels=labels("prefill", 10)),
        pod("p-9-0", "192.168.2.1", npus=1, labels=labels("prefill", 9)),
    )

    table = build_rank_table(CONTROL, COORDINATION, servers, {})

    assert ips(table) == {
        "2": ["192.168.2.1"],
        "3": ["192.168.2.2"],
        "4": ["192.168.1.1", "192.168.1.2"],
        "5": ["192.168.1.3"],
        "1": ["192.168.0.8"],
        "0": ["192.168.0.9"],
    }
    assert [group.deploy_server for group in table.server_groups] == ["2", "2", "1", "1"]
    two_pods = table.server_groups[2].server_list
    assert [[device.rank_id for device in server.device or ()] for server in two_pods] == [["0", "1"], ["2", "3"]]
    assert [[device.device_logical_id for device in server.device or ()] for server in two_pods] == [["0", "1"], ["0", "1"]]


@pytest.mark.parametrize(
    ("controllers", "coordinators", "servers", "status"),
    [
        (CONTROL, COORDINATION, HETEROGENEOUS, "completed"),
        ([], COORDINATION, HETEROGENEOUS, "initializing"),
        (CONTROL, [], HETEROGENEOUS, "initializing"),
        (CONTROL, COORDINATION, [], "initializing"),
    ],
)
def test_a_table_is_completed_with_one_pod_of_each_kind(
    controllers: list[PodFacts], coordinators: list[PodFacts], servers: list[PodFacts], status: str
) -> None:
    table = build_rank_table(controllers, coordinators, servers, HARDWARE)

    assert table.status == status
    assert list(ips(table)) == ["2", "1", "0"]


def test_the_order_in_which_pods_are_seen_does_not_matter() -> None:
    forward = build_rank_table(CONTROL, COORDINATION, HETEROGENEOUS, HARDWARE)
    backward = build_rank_table(CONTROL, COORDINATION, HETEROGENEOUS[::-1], HARDWARE)

    assert forward.to_json() == backward.to_json()


@pytest.mark.parametrize(
    "dead",
    [
        pod("a", "192.168.0.1", deleted=True),
        pod("a", "192.168.0.1", phase="Succeeded"),
        pod("a", "192.168.0.1", phase="Failed"),
        pod("a", ""),
        {"metadata": {"name": "a"}, "spec": {}, "status": {}},
    ],
)
def test_a_pod_without_address_or_on_its_way_out_is_not_live(dead: dict[str, Any]) -> None:
    assert read_pod(dead) is None


def test_a_pod_that_is_not_ready_is_live() -> None:
    waiting = pod("a", "192.168.0.1", phase="Pending")
    waiting["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    assert read_pod(waiting) is not None


@pytest.mark.parametrize(
    ("annotations", "npus", "ids"),
    [
        ({}, 3, (0, 1, 2)),
        ({NPU: "Ascend910-3,Ascend910-5"}, 2, (3, 5)),
        ({NPU: "Ascend910-3"}, 2, (0, 1)),
        ({NPU: "broken,values"}, 2, (0, 1)),
        ({}, 0, ()),
    ],
)
def test_npu_ids_come_from_the_annotation_when_it_fits_the_request(annotations: dict[str, str], npus: int, ids: tuple[int, ...]) -> None:
    found = read_pod(pod("a", "192.168.0.1", npus=npus, annotations=annotations))

    assert found is not None
    assert found.npu_ids == ids


@pytest.mark.parametrize(
    ("annotation", "node_label", "expected"),
    [
        (None, "800I-A2-32G", "800I A2(32G)"),
        (None, "800I-A2-64G", "800I A2(64G)"),
        ("800I-A2-64G", "800I-A2-32G", "800I A2(64G)"),
        (None, "something-else", None),
        (None, None, None),
    ],
)
def test_the_hardware_type_is_the_pods_annotation_else_the_nodes_label(
    annotation: str | None, node_label: str | None, expected: str | None
) -> None:
    annotations = {"mind-cluster/hardware-type": annotation} if annotation else {}
    servers = facts(pod("a", "192.168.0.1", npus=1, annotations=annotations))

    table = build_rank_table([], [], servers, {"n1": node_label} if node_label else {})

    assert table.server_groups[0].server_list[0].hardware_type == expected


def test_device_addresses_are_stable_private_and_differ() -> None:
    addresses = {device_address(f"10.0.0.{host}", npu) for host in range(10) for npu in range(16)}

    assert len(addresses) == 160
    assert all(16 <= int(address.split(".")[1]) <= 31 for address in addresses)
    assert device_address("10.0.0.1", 0) == device_address("10.0.0.1", 0)
