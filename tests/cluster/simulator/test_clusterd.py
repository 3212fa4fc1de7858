# SPDX-License-Identifier: Apache-2.0
"""The simulated ClusterD against a real API server, with no more rights than the stack gives it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpclib.client import Channel

from controller_runtime.api.rank_table import RankTable
from controller_runtime.clusterd.proto.config_grpc import ConfigStub
from controller_runtime.clusterd.proto.config_pb2 import ClientInfo
from controller_runtime.clusterd.proto.fault_pb2 import FaultMsgSignal
from controller_runtime.errors import TransportError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.kind import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, NODE, POD
from simulator.clusterd.faults import FAULTS_ANNOTATION
from simulator.clusterd.latest import Latest
from simulator.clusterd.publisher import Publisher, Watched
from tests.support.control_plane import ControlPlane, free_ports
from tests.support.eventually import eventually
from tests.support.pki import Authority, write_identity
from tests.support.tcp_gate import TcpGate

pytestmark = pytest.mark.cluster

CONFIG_MAP_NAME = "global-ranktable"
UPDATE_WITHIN_S = 3.0
"""The promise is one second; a busy machine gets three times that."""

RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: clusterd-{namespace}}}
rules:
- {{apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: clusterd-{namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: clusterd-{namespace}}}
subjects: [{{kind: User, name: clusterd, apiGroup: rbac.authorization.k8s.io}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: clusterd, namespace: {namespace}}}
rules:
- {{apiGroups: [""], resources: [pods], verbs: [get, list, watch]}}
- {{apiGroups: [""], resources: [configmaps], verbs: [create]}}
- {{apiGroups: [""], resources: [configmaps], verbs: [get, patch], resourceNames: [global-ranktable]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: clusterd, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: clusterd}}
subjects: [{{kind: User, name: clusterd, apiGroup: rbac.authorization.k8s.io}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: default, namespace: {namespace}}}
"""


class Bench:
    """A namespace with a running publisher; the test makes pods as kubelets would show them."""

    def __init__(self, plane: ControlPlane, namespace: str, admin: KubeClient) -> None:
        self.plane = plane
        self.namespace = namespace
        self.admin = admin
        self.tables: Latest[str] = Latest()
        self.faults: Latest[FaultMsgSignal] = Latest()

    @asynccontextmanager
    async def publishing(self, directory: Path, server: str = "") -> AsyncIterator[None]:
        """Run the publisher as the user `clusterd`."""
        kubeconfig = directory / "clusterd.kubeconfig"
        kubeconfig.write_bytes(self.plane.kubeconfig_for("clusterd", server=server))
        client = KubeClient(load_config(str(kubeconfig)), field_manager="sim-clusterd")
        watched = Watched(self.namespace, "app=controller", "app=coordinator", "app=server", CONFIG_MAP_NAME)
        stop = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(Publisher(client, watched, "job", self.tables, self.faults).run(stop))
                yield
                stop.set()
        finally:
            await client.close()

    async def pod(self, name: str, app: str, ip: str = "", node: str = "", npus: int = 0) -> None:
        """Create a pod; with `ip` it is running."""
        resources = {"huawei.com/Ascend910": str(npus)} if npus else {}
        container = {"name": "c", "image": "none", "resources": {"requests": resources, "limits": resources}}
        spec: dict[str, Any] = {"containers": [container], "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
        metadata = {"name": name, "namespace": self.namespace, "labels": {"app": app}}
        await self.admin.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | ({"nodeName": node} if node else {})}
        )
        if ip:
            await self.runs(name, ip)

    async def runs(self, name: str, ip: str) -> None:
        """Give a pod its address."""
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}
        await self.admin.patch(POD, name, self.namespace, {"status": status}, subresource="status")

    async def complete(self) -> None:
        """One pod of each kind."""
        await self.pod("controller-0", "controller", "192.168.0.8")
        await self.pod("coordinator-0", "coordinator", "192.168.0.9")
        await self.pod("server-0", "server", "192.168.0.1", npus=2)
        await self.shows("2", ["192.168.0.1"])

    async def table(self) -> RankTable | None:
        """What the ConfigMap says."""
        try:
            found = await self.admin.get(CONFIG_MAP, CONFIG_MAP_NAME, self.namespace)
        except NotFoundError:
            return None
        return RankTable.model_validate_json(found["data"]["global_ranktable.json"])

    async def pushed(self, table: RankTable) -> None:
        """Wait until subscribers have this table."""
        text = table.to_json().decode()
        await eventually(lambda: self.tables.value == text, "the table is pushed", UPDATE_WITHIN_S)

    async def shows(self, group_id: str, ips: list[str], within_s: float = UPDATE_WITHIN_S) -> None:
        """Wait until a group has exactly these addresses."""

        async def is_shown() -> bool:
            table = await self.table()
            group = table.group(group_id) if table else None
            return group is not None and [server.server_ip for server in group.server_list] == ips

        await eventually(is_shown, f"group {group_id} is {ips}", within_s)


@pytest.fixture
async def bench(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Bench]:
    control_plane.kubectl("apply", "-f", "-", stdin=RIGHTS.format(namespace=namespace))
    admin = KubeClient(load_config(str(control_plane.kubeconfig)))
    yield Bench(control_plane, namespace, admin)
    for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE):
        await admin.delete(kind, f"clusterd-{namespace}")
    await admin.close()


async def test_the_table_follows_the_pods(bench: Bench, tmp_path: Path) -> None:
    async with bench.publishing(tmp_path):
        await bench.shows("2", [], within_s=15)
        await bench.pod("controller-0", "controller", "192.168.0.8")
        await bench.pod("coordinator-0", "coordinator", "192.168.0.9")
        await bench.pod("server-1", "server", npus=2)
        await bench.shows("0", ["192.168.0.9"])
        table = await bench.table()
        assert table is not None
        assert not table.is_completed
        assert bench.tables.value is None

        await bench.runs("server-1", "192.168.0.2")
        await bench.shows("2", ["192.168.0.2"])
        await bench.pod("server-0", "server", "192.168.0.1", npus=2)
        await bench.shows("2", ["192.168.0.1", "192.168.0.2"])
        table = await bench.table()
        assert table is not None
        assert table.is_completed
        await bench.pushed(table)

        await bench.admin.delete(POD, "server-1", bench.namespace)
        await bench.shows("2", ["192.168.0.1"])
        await eventually(lambda: "192.168.0.2" not in (bench.tables.value or "192.168.0.2"), "the smaller table is pushed")


async def test_a_table_that_somebody_reset_is_written_again(bench: Bench, tmp_path: Path) -> None:
    empty = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP_NAME, "namespace": bench.namespace, "labels": {"a": "b"}},
    }
    reset = {"global_ranktable.json": json.dumps({"version": "1.0", "status": "initializing", "server_group_list": []})}
    await bench.admin.create(empty | {"data": reset})
    async with bench.publishing(tmp_path):
        await bench.complete()

        await bench.admin.patch(CONFIG_MAP, CONFIG_MAP_NAME, bench.namespace, {"data": reset})

        await bench.shows("2", ["192.168.0.1"], within_s=15)
    found = await bench.admin.get(CONFIG_MAP, CONFIG_MAP_NAME, bench.namespace)
    assert found["metadata"]["labels"] == {"a": "b"}


async def test_an_api_server_that_is_away_costs_nothing_and_is_caught_up_with(bench: Bench, tmp_path: Path) -> None:
    async with TcpGate.before(bench.plane.url) as gate, bench.publishing(tmp_path, gate.url):
        await bench.complete()
        table = await bench.table()
        assert table is not None
        await bench.pushed(table)
        before = bench.tables.value

        await gate.cut()
        await bench.pod("server-1", "server", "192.168.0.2", npus=2)
        await bench.admin.delete(POD, "server-0", bench.namespace)
        await bench.shows("2", ["192.168.0.1"])
        assert bench.tables.value == before

        await gate.restore()
        await bench.shows("2", ["192.168.0.2"], within_s=60)


async def test_nodes_give_hardware_types_and_faults(bench: Bench, tmp_path: Path) -> None:
    node = f"node-{bench.namespace}"
    metadata = {"name": node, "labels": {"hardware-type": "800I-A2-32G"}}
    await bench.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    addresses = [{"type": "InternalIP", "address": "10.0.0.7"}]
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "addresses": addresses}
    await bench.admin.patch(NODE, node, None, {"status": ready}, subresource="status")

    def faulty() -> dict[str, str]:
        infos = bench.faults.value.nodeFaultInfo if bench.faults.value else []
        return {info.nodeName: info.nodeIP for info in infos if info.nodeName == node}

    async with bench.publishing(tmp_path):
        await bench.pod("server-0", "server", "192.168.0.1", node=node, npus=1)
        await bench.shows("2", ["192.168.0.1"], within_s=15)
        table = await bench.table()
        assert table is not None
        assert table.server_groups[0].server_list[0].hardware_type == "800I A2(32G)"
        assert faulty() == {}

        fault = json.dumps([{"deviceId": "0", "faultCodes": ["4C1F8608"]}])
        await bench.admin.patch(NODE, node, None, {"metadata": {"annotations": {FAULTS_ANNOTATION: fault}}})
        await eventually(lambda: faulty() == {node: "10.0.0.7"}, "the annotated fault is published")
        await bench.admin.patch(NODE, node, None, {"metadata": {"annotations": {FAULTS_ANNOTATION: None}}})
        await eventually(lambda: faulty() == {}, "the fault is gone")
        await bench.admin.delete(NODE, node)


async def test_the_process_serves_health_and_pushes_the_table(bench: Bench, tmp_path: Path) -> None:
    authority, port, health_port = Authority("pd"), *free_ports(2)
    tls = {
        name: write_identity(tmp_path / name, authority, authority.issue(name, sans=[f"{name}.ns"]))
        for name in ("clusterd", "probe", "ms-controller-cluster")
    }
    kubeconfig = tmp_path / "clusterd.kubeconfig"
    kubeconfig.write_bytes(bench.plane.kubeconfig_for("clusterd"))
    probe = HttpClient(TlsIdentity(TlsFiles.in_directory(tls["probe"])))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from simulator.clusterd import main; main()"),
        *("--pod-ip=127.0.0.1", f"--tls-dir={tls['clusterd']}", f"--port={port}", f"--health-port={health_port}"),
        *(f"--namespace={bench.namespace}", f"--kubeconfig={kubeconfig}"),
        *("--controller-selector=app=controller", "--coordinator-selector=app=coordinator", "--server-selector=app=server"),
    )

    async def is_healthy() -> bool:
        try:
            return (await probe.request("GET", f"https://127.0.0.1:{health_port}/v1/health")).status == 200
        except TransportError:
            return False

    try:
        await eventually(is_healthy, "sim-clusterd is healthy", 60)
        await bench.complete()
        context = TlsIdentity(TlsFiles.in_directory(tls["ms-controller-cluster"])).client_context(("h2",), expect_sans=["clusterd.*"])
        async with Channel("127.0.0.1", port, ssl=context) as channel, ConfigStub(channel).SubscribeRankTable.open() as stream:
            await stream.send_message(ClientInfo(jobId="any", role="mindie-ms-controller"), end=True)
            first = await asyncio.wait_for(stream.recv_message(), 15)
            await stream.cancel()
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 15) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await probe.close()
    assert first is not None
    assert RankTable.model_validate_json(first.rankTable) == await bench.table()
