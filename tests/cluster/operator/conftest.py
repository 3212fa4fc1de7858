# SPDX-License-Identifier: Apache-2.0
"""A control plane with the workload controllers and the garbage collector, and an operator with exactly its own rights."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_runtime.api.crds import all_crds
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from tests.support.control_plane import ControlPlane
from tests.support.fake_node import FakeNode, running_node
from tests.support.operator_rights import GROUP, operator_rights
from tests.support.operator_run import Cluster
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

USER = "infer-operator"


@pytest.fixture(scope="session")
def workload_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, kube-apiserver, kube-controller-manager, our CRDs and the operator's ClusterRole bound to its user."""
    plane = ControlPlane(Path(tmp_path_factory.mktemp("workload-plane")), controller_manager=True)
    subject = {"apiGroup": GROUP, "kind": "User", "name": USER}
    try:
        plane.start()
        everything = {"apiVersion": "v1", "kind": "List", "items": [*all_crds(), *operator_rights(subject)]}
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(everything))
        names = [f"crd/{crd['metadata']['name']}" for crd in all_crds()]
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        (plane.directory / "operator.kubeconfig").write_bytes(plane.kubeconfig_for(USER))
        yield plane
    finally:
        plane.stop()


@pytest.fixture
async def cluster(workload_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """A fresh namespace, seen by an administrator; its sets are deleted at the end."""
    client = KubeClient(load_config(str(workload_plane.kubeconfig)), qps=10_000, burst=10_000)
    name = f"t-{uuid.uuid4().hex[:10]}"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Cluster(client, name)
    await asyncio.to_thread(workload_plane.kubectl, "delete", "iss,is,ist", "--all", "--namespace", name, "--wait=false")
    await client.close()


@pytest.fixture
async def operator_client(workload_plane: ControlPlane) -> AsyncIterator[RecordingClient]:
    """A client with the operator's rights and no more."""
    client = RecordingClient(load_config(str(workload_plane.directory / "operator.kubeconfig")))
    yield client
    await client.close()


@pytest.fixture
async def pods(cluster: Cluster) -> AsyncIterator[ReadyPods]:
    """Pods of the namespace become ready as soon as they are made."""
    stop = asyncio.Event()
    pods = ReadyPods(cluster.client, cluster.namespace)
    task = asyncio.create_task(pods.run(stop))
    yield pods
    stop.set()
    await task


@pytest.fixture
async def node(cluster: Cluster, pods: ReadyPods) -> AsyncIterator[FakeNode]:
    """A node that every pod of the namespace is bound to."""
    async with running_node(cluster.client, f"node-{cluster.namespace}") as node:
        pods.node = node.name
        yield node
        pods.terminating_s = 0.0
