# SPDX-License-Identifier: Apache-2.0
"""What a running stack looks like through `kubectl`: nodes, pods and workloads of its namespaces, roles of its Servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from controller_runtime.api.base import Model
from controller_runtime.api.edges import COORDINATOR_APP, ETCD_APP, SERVER_APP
from controller_runtime.api.labels import INSTANCE_SET_NAME
from controller_runtime.api.stack import NPU_RESOURCE
from controller_runtime.cli.processes import run_json

READY = "Ready"
LOOK_AGAIN_S = 2.0


class NodeView(Model):
    """One node. `npus`: how many it offers."""

    name: str
    address: str
    ready: bool
    npus: int


class PodView(Model):
    """One pod of the stack. `role`: of a Server, else None. Finished pods of Jobs are `finished`, not ready."""

    namespace: str
    name: str
    app: str
    node: str
    ready: bool
    finished: bool
    restarts: int
    role: str | None


class WorkloadView(Model):
    """One Deployment or StatefulSet. `replicas`: how many pods it is to have, `updated`: how many have its present template."""

    namespace: str
    kind: str
    name: str
    replicas: int
    updated: int


class ClusterView(Model):
    """Everything `status` shows of the cluster."""

    nodes: tuple[NodeView, ...]
    pods: tuple[PodView, ...]
    workloads: tuple[WorkloadView, ...] = ()

    def etcd_members(self) -> tuple[PodView, ...]:
        """Members, by name."""
        return tuple(pod for pod in self.pods if pod.app == ETCD_APP)

    def stands_by(self, pod: PodView) -> bool:
        """Whether it is a Coordinator beside the master: of several only one is Ready."""
        return pod.app == COORDINATOR_APP and any(other.ready for other in self.pods if other.app == COORDINATOR_APP)

    def servers(self) -> tuple[PodView, ...]:
        """Servers, by name."""
        return tuple(pod for pod in self.pods if pod.app == SERVER_APP)


def read_cluster(namespaces: Mapping[str, str]) -> ClusterView:
    """Ask the API server once for nodes and once per namespace for pods and workloads."""
    nodes = tuple(node_view(item) for item in run_json(["kubectl", "get", "nodes", "-o", "json"])["items"])
    items = [
        item
        for namespace in namespaces.values()
        for item in run_json(["kubectl", "get", "pods,deployments,statefulsets", "-n", namespace, "-o", "json"])["items"]
    ]
    pods = [pod_view(item) for item in items if item["kind"] == "Pod"]
    workloads = [workload_view(item) for item in items if item["kind"] != "Pod"]
    return ClusterView(
        nodes=nodes,
        pods=tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name))),
        workloads=tuple(sorted(workloads, key=lambda workload: (workload.namespace, workload.name))),
    )


def settled(
    read: Callable[[], ClusterView],
    is_well: Callable[[ClusterView], bool],
    wait_s: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ClusterView:
    """Read until all is well, at most `wait_s`; returns what was read last."""
    end = clock() + wait_s
    while not is_well(view := read()) and clock() < end:
        sleep(LOOK_AGAIN_S)
    return view


def node_view(item: Mapping[str, Any]) -> NodeView:
    """Project a Node."""
    status = item["status"]
    addresses = {address["type"]: address["address"] for address in status.get("addresses", [])}
    return NodeView(
        name=item["metadata"]["name"],
        address=addresses.get("InternalIP", ""),
        ready=_condition(status, READY),
        npus=int(status.get("allocatable", {}).get(NPU_RESOURCE, "0")),
    )


def pod_view(item: Mapping[str, Any]) -> PodView:
    """Project a Pod."""
    metadata, status = item["metadata"], item["status"]
    labels = metadata.get("labels", {})
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        app=labels.get("app", ""),
        node=item["spec"].get("nodeName", ""),
        ready=_condition(status, READY),
        finished=status.get("phase") == "Succeeded",
        restarts=sum(container["restartCount"] for container in status.get("containerStatuses", [])),
        role=labels.get(INSTANCE_SET_NAME),
    )


def workload_view(item: Mapping[str, Any]) -> WorkloadView:
    """Project a Deployment or StatefulSet. Its controller may not have seen the present template yet: then no pod has it."""
    metadata, status = item["metadata"], item.get("status", {})
    is_seen = status.get("observedGeneration", 0) >= metadata["generation"]
    return WorkloadView(
        namespace=metadata["namespace"],
        kind=item["kind"],
        name=metadata["name"],
        replicas=item["spec"]["replicas"],
        updated=status.get("updatedReplicas", 0) if is_seen else 0,
    )


def _condition(status: Mapping[str, Any], kind: str) -> bool:
    return any(condition["type"] == kind and condition["status"] == "True" for condition in status.get("conditions", []))
