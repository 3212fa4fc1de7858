# SPDX-License-Identifier: Apache-2.0
"""The `infer-operator` process: probes, metrics, lease, signals, crashes. With the rights of its manifest and no more."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_runtime.errors import TransportError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET, LEASE, SERVICE, STATEFUL_SET
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.infer import role, set_object
from tests.support.operator_process import ROOT, OperatorProcess
from tests.support.operator_rights import GROUP, operator_namespace_rights
from tests.support.operator_run import Cluster, running_operator
from tests.support.pki import Authority, write_identity
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

USER = "infer-operator"


KNOWN_METRICS = {
    "controller_runtime_reconcile_total",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_reconcile_time_seconds_bucket",
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "workqueue_depth",
    "workqueue_adds_total",
    "workqueue_queue_duration_seconds_bucket",
    "workqueue_work_duration_seconds_bucket",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
    "workqueue_retries_total",
    "rest_client_requests_total",
    "rest_client_request_duration_seconds_bucket",
    "leader_election_master_status",
}
"""What dashboards of controllers written in Go look for."""


@pytest.fixture
async def operators(workload_plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> AsyncIterator[list[OperatorProcess]]:
    """Two replicas, not started, with their rights in their namespace."""
    for right in operator_namespace_rights({"apiGroup": GROUP, "kind": "User", "name": USER}, cluster.namespace):
        await cluster.client.create(right)
    kubeconfig = workload_plane.directory / "operator.kubeconfig"
    replicas = [OperatorProcess(kubeconfig, cluster.namespace, tmp_path / f"{name}.log") for name in ("one", "two")]
    yield replicas
    for replica in replicas:
        if replica.process is not None and replica.process.returncode is None:
            await replica.end(signal.SIGKILL)


async def test_a_replica_serves_probes_reconciles_and_stops_cleanly(
    cluster: Cluster, operators: list[OperatorProcess], pods: ReadyPods
) -> None:
    one = operators[0]
    await one.start()
    await eventually(one.ready, "the operator is ready", 30)
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet")]))
    await cluster.until_ready(INFER_SERVICE_SET, "x")

    statuses = [await asyncio.to_thread(one.status, path) for path in ("/", "/healthz", "/readyz", "/other")]
    assert statuses == [200, 200, 200, 404]
    assert await one.end() == 0
    assert "lease released" in one.events()
    assert (await cluster.get(LEASE, USER))["spec"]["holderIdentity"] == ""
    assert one.log.read_text() == one.log.with_suffix(".copy").read_text()


async def test_metrics_are_for_holders_of_a_certificate_only(cluster: Cluster, operators: list[OperatorProcess], tmp_path: Path) -> None:
    authority, stranger = Authority("pd"), Authority("pd")
    own = write_identity(tmp_path / "own", authority, authority.issue("operator", sans=["infer-operator-metrics.mindx-dl"]))
    reader = write_identity(tmp_path / "reader", authority, authority.issue("reader", sans=["monitoring.mindx-dl"]))
    other = write_identity(tmp_path / "other", stranger, stranger.issue("reader", sans=["monitoring.mindx-dl"]))
    one = operators[0]
    await one.start(f"--metrics-address=127.0.0.1:{one.metrics}", f"--metrics-tls-dir={own}", "--concurrent-reconciles=3")
    await eventually(one.ready, "the operator is ready", 30)
    url = f"https://127.0.0.1:{one.metrics}/metrics"

    client = HttpClient(TlsIdentity(TlsFiles.in_directory(reader)))
    answer = await client.request("GET", url, expect_sans=["infer-operator-metrics.mindx-dl"])
    assert answer.status == 200
    served = {line.partition("{")[0] for line in answer.body.decode().splitlines()}
    assert served >= KNOWN_METRICS, KNOWN_METRICS - served
    assert b'controller_runtime_max_concurrent_reconciles{controller="instance-set"} 3.0' in answer.body
    assert (await client.request("GET", url.replace("/metrics", "/debug/tasks"))).status == 404
    await client.close()

    client = HttpClient(TlsIdentity(TlsFiles.in_directory(other)))
    with pytest.raises(TransportError):
        await client.request("GET", url)
    await client.close()
    assert await one.end() == 0


async def test_profiles_are_served_only_when_asked_for(cluster: Cluster, operators: list[OperatorProcess], tmp_path: Path) -> None:
    authority = Authority("pd")
    own = write_identity(tmp_path / "own", authority, authority.issue("operator", sans=["infer-operator-metrics.mindx-dl"]))
    reader = write_identity(tmp_path / "reader", authority, authority.issue("reader", sans=["monitoring.mindx-dl"]))
    one = operators[0]
    await one.start(f"--metrics-address=127.0.0.1:{one.metrics}", f"--metrics-tls-dir={own}", "--profiling")
    await eventually(one.ready, "the operator is ready", 30)
    await eventually(lambda: "controllers started" in one.events(), "the operator leads", 30)

    client = HttpClient(TlsIdentity(TlsFiles.in_directory(reader)))
    tasks = await client.request("GET", f"https://127.0.0.1:{one.metrics}/debug/tasks")
    profile = await client.request("GET", f"https://127.0.0.1:{one.metrics}/debug/profile?seconds=0.3")
    await client.close()

    assert b"infer-service-set-0" in tasks.body
    assert b"asyncio.base_events:BaseEventLoop.run_forever;" in profile.body
    assert await asyncio.to_thread(one.status, "/debug/tasks") == 404
    assert await one.end() == 0


async def test_the_standby_takes_over_when_the_leader_stops(cluster: Cluster, operators: list[OperatorProcess], pods: ReadyPods) -> None:
    one, two = operators
    await one.start()
    await eventually(lambda: one.log.exists() and "controllers started" in one.events(), "the first one leads", 30)
    await two.start()
    await eventually(two.ready, "the standby is ready", 30)
    assert "controllers started" not in two.events()

    assert await one.end() == 0
    await cluster.write(set_object("x", [role("a")]))
    await cluster.until_ready(INFER_SERVICE_SET, "x")

    assert "controllers started" in two.events()
    assert await two.end() == 0


@pytest.mark.parametrize("after_writes", [1, 4, 9, 14])
async def test_an_operator_that_crashes_anywhere_is_completed_by_the_next(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, after_writes: int
) -> None:
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet"), role("b", 1)], 2))

    async with running_operator(operator_client) as crashing:
        await eventually(lambda: len(operator_client.writes_in(cluster.namespace)) >= after_writes, "some writes happened")
        crashing.cancel()
    made_before = await cluster.uids(INFER_SERVICE, INSTANCE_SET, STATEFUL_SET, DEPLOYMENT, SERVICE)
    assert len(made_before) < 2 + 4 + 6 + 6

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")

    made = await cluster.uids(INFER_SERVICE, INSTANCE_SET, STATEFUL_SET, DEPLOYMENT, SERVICE)
    assert len(made) == 2 + 4 + 6 + 6
    assert made_before.items() <= made.items()


@pytest.mark.parametrize(
    "arguments, code, word",
    [
        (["--logLevel=9"], 2, "logLevel"),
        (["--no-such-flag"], 2, "no-such-flag"),
        (["--node-cleaner-delay=-1"], 2, "node-cleaner-delay"),
        (["--workers=0"], 2, "--workers"),
        (["--node-cleaner=false", "--profiling=false", "--version"], 0, "infer-operator version: "),
        (["--enable-healthz", "--healthz-address=80"], 78, "--healthz-address 80"),
        (["--service-node-port-range=x"], 78, "--service-node-port-range x"),
        (["--logFile=relative.log"], 78, "relative.log"),
        (["--enable-healthz", "--healthz-address=0.0.0.0:11254"], 78, "0.0.0.0"),
        (["--kubeconfig=/nowhere"], 78, "/nowhere"),
        (["--version"], 0, "infer-operator version: "),
        (["-version"], 0, "infer-operator version: "),
        (["--help"], 0, "--maxBackups"),
    ],
)
async def test_exit_codes_tell_bad_input_from_failure(
    workload_plane: ControlPlane, tmp_path: Path, arguments: list[str], code: int, word: str
) -> None:
    given = [f"--kubeconfig={workload_plane.directory / 'operator.kubeconfig'}", f"--logFile={tmp_path / 'o.log'}", *arguments]

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "controller_runtime.cli.infer_operator",
        *given,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
        env={"COLUMNS": "200", "NO_COLOR": "1", "PATH": "/usr/bin:/bin"},
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)

    assert (process.returncode, word in said.decode()) == (code, True), said.decode()
