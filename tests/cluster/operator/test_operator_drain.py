# SPDX-License-Identifier: Apache-2.0
"""Drain before an instance is removed or replaced: asked, answered, out of time, taken back, and across a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controller_runtime.api.labels import DRAIN_REQUESTED, DRAINED
from controller_runtime.kube.kind import INFER_SERVICE, INSTANCE_SET, POD, SERVICE, STATEFUL_SET
from tests.support.eventually import eventually
from tests.support.infer import pod_template, role, service_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

LONG_S = 600
IMAGE = "/spec/roles/0/spec/template/spec/containers/0/image"
REPLICAS = "/spec/roles/0/replicas"


def service(replicas: int, drain_s: int = LONG_S) -> dict[str, object]:
    spec = {"replicas": 1, "template": pod_template()}
    return service_object("s", [role("r", replicas, "StatefulSet", spec=spec, drainTimeoutSeconds=drain_s)])


async def marks(cluster: Cluster, name: str) -> set[str]:
    found = await cluster.get(STATEFUL_SET, name)
    return {DRAIN_REQUESTED, DRAINED} & found["metadata"].get("annotations", {}).keys()


async def until_asked(cluster: Cluster, *names: str) -> None:
    async def asked() -> bool:
        return all([DRAIN_REQUESTED in await marks(cluster, name) for name in names])

    await eventually(asked, f"{', '.join(names)} are asked to drain", 60)


async def answer(cluster: Cluster, name: str) -> None:
    await cluster.client.patch(STATEFUL_SET, name, cluster.namespace, {"metadata": {"annotations": {DRAINED: "true"}}})


async def test_scaling_in_asks_first_and_deletes_each_instance_when_it_answers(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Defect 34."""
    await cluster.write(service(3))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.edit(INFER_SERVICE, "s", ("replace", REPLICAS, 1))
        await until_asked(cluster, "s-r-1", "s-r-2")
        await cluster.until_quiet(operator_client)
        assert await cluster.names(STATEFUL_SET) == ["s-r-0", "s-r-1", "s-r-2"]
        assert await marks(cluster, "s-r-0") == set()
        assert (await cluster.condition(INFER_SERVICE, "s") or ("",))[0] == "True"

        await answer(cluster, "s-r-1")
        await cluster.until_names(STATEFUL_SET, "s-r-0", "s-r-2")
        await cluster.until_names(SERVICE, "service-s-r-0", "service-s-r-2")
        await answer(cluster, "s-r-2")
        await cluster.until_names(STATEFUL_SET, "s-r-0")


async def test_an_instance_that_is_about_to_go_does_not_count_as_one_that_is_asked_for(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Defect 18."""
    await cluster.write(service(2))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.edit(INFER_SERVICE, "s", ("replace", REPLICAS, 1))
        await until_asked(cluster, "s-r-1")
        pods.hold = True
        await cluster.delete(STATEFUL_SET, "s-r-0")

        async def is_told() -> bool:
            return await cluster.condition(INSTANCE_SET, "s-r") == ("False", "ReplicasNotReady", "0 of 1 WorkLoad replicas are ready")

        await eventually(is_told, "the other instance does not stand in", 60)
        assert await cluster.names(STATEFUL_SET) == ["s-r-0", "s-r-1"]


async def test_an_instance_that_does_not_answer_goes_when_its_time_is_up_even_across_a_restart(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service(2))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.edit(INFER_SERVICE, "s", ("replace", REPLICAS, 1))
        await until_asked(cluster, "s-r-1")
    long_ago = (datetime.now(UTC) - timedelta(seconds=LONG_S - 2)).isoformat(timespec="seconds")
    await cluster.client.patch(STATEFUL_SET, "s-r-1", cluster.namespace, {"metadata": {"annotations": {DRAIN_REQUESTED: long_ago}}})

    async with running_operator(operator_client):
        await cluster.until_names(STATEFUL_SET, "s-r-0")


async def test_a_rollout_drains_each_instance_before_it_is_replaced_and_the_next_drain_starts_afresh(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service(2))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        for image in ("example/none:2", "example/none:3"):
            await cluster.edit(INFER_SERVICE, "s", ("replace", IMAGE, image))
            for name, other in (("s-r-1", "s-r-0"), ("s-r-0", "s-r-1")):
                await until_asked(cluster, name)
                before = await cluster.uids(POD)
                await cluster.until_quiet(operator_client)
                assert await cluster.uids(POD) == before
                assert await marks(cluster, other) == set()
                await answer(cluster, name)
            await cluster.until_ready(INFER_SERVICE, "s")
            assert [await marks(cluster, name) for name in ("s-r-0", "s-r-1")] == [set(), set()]
        assert (await cluster.get(STATEFUL_SET, "s-r-0"))["spec"]["template"]["spec"]["containers"][0]["image"] == "example/none:3"


async def test_a_drain_is_taken_back_when_the_edit_is(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service(2))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        before = await cluster.uids(STATEFUL_SET, POD)
        for path, changed, former in ((IMAGE, "example/none:2", "example/none:1"), (REPLICAS, 1, 2)):
            await cluster.edit(INFER_SERVICE, "s", ("replace", path, changed))
            await until_asked(cluster, "s-r-1")
            await cluster.edit(INFER_SERVICE, "s", ("replace", path, former))

            async def is_taken_back() -> bool:
                return not await marks(cluster, "s-r-1")

            await eventually(is_taken_back, "the request is gone", 60)
        await cluster.until_ready(INFER_SERVICE, "s")
        assert await cluster.uids(STATEFUL_SET, POD) == before


async def test_without_a_timeout_nothing_is_asked(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service(2, 0))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.edit(INFER_SERVICE, "s", ("replace", REPLICAS, 1))
        await cluster.until_names(STATEFUL_SET, "s-r-0")
    assert ("patch", "StatefulSet", "s-r-1") not in operator_client.writes_in(cluster.namespace)
