# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.cli.cluster_view import ClusterView, node_view, pod_view, settled, workload_view


def node(**status: Any) -> dict[str, Any]:
    ready = {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": "node1"}, "status": {**ready, **status}}


def pod(labels: dict[str, str] | None = None, **status: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "mindie", "name": "pod-0"}
    if labels is not None:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": {}, "status": status}


def test_a_node_shows_its_internal_address_and_what_npus_it_offers() -> None:
    addresses = [{"type": "Hostname", "address": "node1"}, {"type": "InternalIP", "address": "10.0.0.7"}]

    view = node_view(node(addresses=addresses, allocatable={"cpu": "4", "huawei.com/Ascend910": "8"}))

    assert (view.name, view.address, view.ready, view.npus) == ("node1", "10.0.0.7", True, 8)


def test_a_node_that_says_little_is_not_ready_and_offers_none() -> None:
    view = node_view({"metadata": {"name": "node1"}, "status": {}})

    assert (view.address, view.ready, view.npus) == ("", False, 0)


def test_a_node_of_unknown_state_is_not_ready() -> None:
    assert not node_view(node(conditions=[{"type": "Ready", "status": "Unknown"}])).ready


def test_a_server_shows_its_role_and_all_its_restarts() -> None:
    labels = {"app": "mindie-server", "infer.huawei.com/instanceset-name": "decode"}

    view = pod_view(
        pod(
            labels,
            conditions=[{"type": "Ready", "status": "True"}],
            containerStatuses=[{"restartCount": 1}, {"restartCount": 2}],
            phase="Running",
        )
    )

    assert (view.app, view.role, view.ready, view.finished, view.restarts) == ("mindie-server", "decode", True, False, 3)


def test_a_pod_that_waits_for_a_node_is_not_ready_and_has_no_role() -> None:
    view = pod_view(pod(phase="Pending"))

    assert (view.node, view.app, view.role, view.ready, view.restarts) == ("", "", None, False, 0)


def test_a_pod_of_a_finished_job_is_finished_but_a_failed_one_is_not() -> None:
    assert pod_view(pod(phase="Succeeded")).finished
    assert not pod_view(pod(phase="Failed")).finished


def test_members_and_servers_are_told_apart_by_label() -> None:
    apps = ("etcd", "mindie-server", "etcd-auth")

    view = ClusterView(nodes=(), pods=tuple(pod_view(pod({"app": app})) for app in apps))

    assert [member.app for member in view.etcd_members()] == ["etcd"]
    assert [server.app for server in view.servers()] == ["mindie-server"]


def test_a_look_is_repeated_while_something_is_wrong_and_never_longer_than_asked() -> None:
    now = [0.0]

    def looks(good_from: float, wait_s: float) -> int:
        now[0], seen = 0.0, []

        def read() -> ClusterView:
            seen.append(now[0])
            return ClusterView(nodes=(), pods=())

        settled(read, lambda _view: now[0] >= good_from, wait_s, lambda s: now.__setitem__(0, now[0] + s), lambda: now[0])
        return len(seen)

    assert looks(good_from=0, wait_s=120) == 1
    assert looks(good_from=4, wait_s=120) == 3
    assert looks(good_from=1000, wait_s=10) == 6
    assert looks(good_from=1000, wait_s=0) == 1


@pytest.mark.parametrize(
    "status, updated",
    [
        ({"observedGeneration": 2, "updatedReplicas": 3}, 3),
        ({"observedGeneration": 2, "updatedReplicas": 1}, 1),
        ({"observedGeneration": 1, "updatedReplicas": 3}, 0),
        ({}, 0),
    ],
)
def test_pods_count_as_updated_once_the_present_template_was_seen(status: dict[str, int], updated: int) -> None:
    metadata = {"namespace": "etcd", "name": "etcd", "generation": 2}

    view = workload_view({"kind": "StatefulSet", "metadata": metadata, "spec": {"replicas": 3}, "status": status})

    assert (view.replicas, view.updated) == (3, updated)
