# SPDX-License-Identifier: Apache-2.0
"""Gang scheduling: PodGroups beside their workloads, with and without Volcano's kind. Volcano itself does not run here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller_runtime.api.infer_validation import GANG_NEEDS_PODGROUP
from controller_runtime.api.labels import GANG_SCHEDULE
from controller_runtime.kube.kind import (
    DEPLOYMENT,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    POD,
    POD_GROUP,
    SERVICE,
    STATEFUL_SET,
    Object,
)
from tests.support import volcano
from tests.support.eventually import eventually
from tests.support.infer import pod_template, role, service_object, set_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

GANG = {"labels": {GANG_SCHEDULE: "true"}}
GANG_LABEL = "/spec/roles/0/metadata/labels/" + GANG_SCHEDULE.replace("/", "~1")


@pytest.fixture
async def pod_groups(cluster: Cluster) -> AsyncIterator[None]:
    """The cluster knows PodGroups."""
    async with volcano.installed(cluster.client):
        yield


def gang(name: str = "r", replicas: int = 1, kind: str = "StatefulSet", pods: int = 2, **resources: Any) -> Object:
    container = {"name": "infer", "image": "example/none:1", "resources": resources}
    return role(name, replicas, kind, metadata=GANG, spec={"replicas": pods, "template": pod_template(None, None, container)})


async def test_v19_gang_without_volcano_is_told_and_starts_by_itself_once_volcano_is_there(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Vector 19."""
    await cluster.write(set_object("x", [gang("a"), role("b")]))
    async with running_operator(operator_client):
        message = await cluster.until_blocked(INFER_SERVICE_SET, "x")
        await cluster.until_ready(INSTANCE_SET, "x-0-b")
        await cluster.until_quiet(operator_client)
        assert "role a" in message
        assert GANG_NEEDS_PODGROUP in message
        assert await cluster.names(STATEFUL_SET) == []
        assert await cluster.events("ValidateError") == [("InferServiceSet/x", 1)]

        async with volcano.installed(cluster.client):
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            assert await cluster.names(POD_GROUP) == ["pg-x-0-a-0"]
            assert await cluster.names(STATEFUL_SET) == ["x-0-a-0"]
            before = await cluster.uids(STATEFUL_SET, DEPLOYMENT, SERVICE, POD)

        await cluster.until_blocked(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)
        assert await cluster.uids(STATEFUL_SET, DEPLOYMENT, SERVICE, POD) == before


async def test_a_hand_written_instance_set_is_told_as_well(cluster: Cluster, operator_client: RecordingClient) -> None:
    """Vector 19."""
    metadata = {"name": "lone", "labels": {GANG_SCHEDULE: "true"}}
    await cluster.write({"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "metadata": metadata, "spec": role("lone")})
    async with running_operator(operator_client):
        assert GANG_NEEDS_PODGROUP in await cluster.until_blocked(INSTANCE_SET, "lone")
        assert await cluster.names(DEPLOYMENT) == []


async def test_every_instance_has_its_pod_group_before_its_workload(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, pod_groups: None
) -> None:
    await cluster.write(set_object("x", [gang("a", 2, limits={"cpu": "500m", "memory": "1Gi"}), gang("b", 1, "Deployment")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

    assert await cluster.names(POD_GROUP) == ["pg-x-0-a-0", "pg-x-0-a-1", "pg-x-0-b-0"]
    made = await cluster.get(POD_GROUP, "pg-x-0-a-1")
    assert made["spec"] == {"minMember": 2, "minResources": {"cpu": "1", "memory": "2Gi"}, "queue": "default"}
    assert (await cluster.get(POD_GROUP, "pg-x-0-b-0"))["spec"] == {"minMember": 2, "queue": "default"}
    for workload in [each for kind in (STATEFUL_SET, DEPLOYMENT) for each in await cluster.names(kind)]:
        pod_group, own = (("apply", kind, name) for kind, name in (("PodGroup", f"pg-{workload}"), (_kind(workload), workload)))
        writes = operator_client.writes_in(cluster.namespace)
        assert writes.index(pod_group) < writes.index(own)
        assert writes.count(pod_group) == writes.count(own) == 1
    pod = await cluster.get(POD, "x-0-a-1-1")
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "pg-x-0-a-1"
    assert pod["spec"]["schedulerName"] == "volcano"


def _kind(workload: str) -> str:
    return "StatefulSet" if "-a-" in workload else "Deployment"


async def test_gang_switched_on_makes_the_workloads_again_and_switched_off_takes_the_pod_groups_away(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, pod_groups: None
) -> None:
    await cluster.write(service_object("s", [{**gang("r", 2), "metadata": {"labels": {"team": "a"}}}]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        before = await cluster.uids(STATEFUL_SET, POD)

        await cluster.edit(INFER_SERVICE, "s", ("add", GANG_LABEL, "true"))
        await cluster.until_names(POD_GROUP, "pg-s-r-0", "pg-s-r-1")
        await cluster.until_ready(INFER_SERVICE, "s")
        gathered = await cluster.uids(STATEFUL_SET, POD)
        assert gathered.keys() == before.keys()
        assert not gathered.items() & before.items()

        await cluster.edit(INFER_SERVICE, "s", ("remove", GANG_LABEL, None))
        await cluster.until_names(POD_GROUP)
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_quiet(operator_client)

        pod = await cluster.get(POD, "s-r-0-0")
        assert "annotations" not in pod["metadata"]
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert await cluster.names(STATEFUL_SET) == ["s-r-0", "s-r-1"]


async def test_scale_in_and_role_removal_leak_no_pod_group(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, pod_groups: None
) -> None:
    await cluster.write(set_object("x", [gang("a", 3), gang("b", 1, "Deployment")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        kept = (await cluster.uids(POD_GROUP))["PodGroup/pg-x-0-a-0"]

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/0/replicas", 1))
        await cluster.until_names(POD_GROUP, "pg-x-0-a-0", "pg-x-0-b-0")
        assert (await cluster.uids(POD_GROUP))["PodGroup/pg-x-0-a-0"] == kept

        await cluster.edit(INFER_SERVICE_SET, "x", ("remove", "/spec/template/roles/1", None))
        await cluster.until_names(POD_GROUP, "pg-x-0-a-0")

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/0/replicas", 0))
        await cluster.until_names(POD_GROUP)


async def test_a_pod_group_follows_the_template_and_is_healed(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, pod_groups: None
) -> None:
    await cluster.write(service_object("s", [gang("r", 1, "Deployment", 2, requests={"cpu": "1"})]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

        async def asks_for(members: int, cpu: str) -> bool:
            found = await cluster.find(POD_GROUP, "pg-s-r-0")
            return found is not None and (found["spec"]["minMember"], found["spec"]["minResources"]["cpu"]) == (members, cpu)

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/spec/replicas", 3))
        await eventually(lambda: asks_for(3, "3"), "the PodGroup follows the template", 60)
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_quiet(operator_client, 100)

        await cluster.edit(POD_GROUP, "pg-s-r-0", ("replace", "/spec/minMember", 1))
        await eventually(lambda: asks_for(3, "3"), "an edit is taken back", 60)
        await cluster.until_quiet(operator_client)

        before = await cluster.uids(POD_GROUP, DEPLOYMENT)
        await cluster.delete(POD_GROUP, "pg-s-r-0")
        await eventually(lambda: asks_for(3, "3"), "a deleted PodGroup is made again", 60)
        after = await cluster.uids(POD_GROUP, DEPLOYMENT)
        assert after["PodGroup/pg-s-r-0"] != before["PodGroup/pg-s-r-0"]
        assert after["Deployment/s-r-0"] == before["Deployment/s-r-0"]


async def test_what_volcano_reports_about_a_pod_group_costs_no_write(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, pod_groups: None
) -> None:
    await cluster.write(service_object("s", [gang()]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_quiet(operator_client)
        operator_client.writes.clear()

        status = {"status": {"phase": "Running", "running": 2}}
        await cluster.client.patch(POD_GROUP, "pg-s-r-0", cluster.namespace, status, subresource="status")
        await cluster.until_quiet(operator_client)

    assert operator_client.writes_in(cluster.namespace) == []
