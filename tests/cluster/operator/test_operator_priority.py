# SPDX-License-Identifier: Apache-2.0
"""Strategy Priority on a real API server: who starts when, and what never waits."""

from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.labels import GANG_SCHEDULE, SCHEDULING_STRATEGY
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.kind import (
    DEPLOYMENT,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    POD_GROUP,
    SERVICE,
    STATEFUL_SET,
    Object,
)
from tests.support import volcano
from tests.support.eventually import eventually
from tests.support.infer import instance_set_object, role, service, service_object, set_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

BY_PRIORITY: dict[str, Any] = {"schedulingStrategy": {"type": "Priority"}}


def retries() -> float:
    """Reconciles of InstanceSets so far that were asked for by a timer and not by a change."""
    return sum(
        REGISTRY.get_sample_value("controller_runtime_reconcile_total", {"controller": "instance-set", "result": result}) or 0.0
        for result in ("requeue_after", "error")
    )


async def until_waiting(cluster: Cluster, name: str, message: str) -> None:
    """Wait until an InstanceSet says that it waits, and for whom."""

    async def says() -> bool:
        return await cluster.condition(INSTANCE_SET, name) == ("False", "WaitingForPriority", message)

    await eventually(says, f"{name}: {message}", 60)


async def test_v41_v43_a_chain_starts_in_order_and_says_what_it_waits_for(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Vectors 41 and 43."""
    pods.hold = True
    prefill = role("prefill", 2, "StatefulSet", priority=2, services=[service("front")])
    roles = [role("router", 1, priority=3), prefill, role("decode", 1, "StatefulSet", priority=1), role("free")]
    await cluster.write(set_object("x", roles, **BY_PRIORITY))
    async with running_operator(operator_client):
        await until_waiting(cluster, "x-0-prefill", "0 of 2 WorkLoad replicas are ready; waiting for role decode")
        await until_waiting(cluster, "x-0-router", "0 of 1 WorkLoad replicas are ready; waiting for roles decode, prefill")
        await cluster.until_quiet(operator_client)
        assert await cluster.names(STATEFUL_SET) == ["x-0-decode-0"]
        assert await cluster.names(DEPLOYMENT) == ["x-0-free-0"]
        assert "front-x-0-prefill" in await cluster.names(SERVICE)

        pods.release()
        await cluster.until_ready(INFER_SERVICE_SET, "x")

    made = [name for verb, kind, name in operator_client.writes_in(cluster.namespace) if verb == "apply" and kind.endswith("Set")]
    order = [made.index(name) for name in ("x-0-decode-0", "x-0-prefill-0")]
    assert order == sorted(order)
    assert await cluster.events("WaitingForPriority") == []


async def test_a_chain_is_handed_on_by_changes_and_never_by_a_timer(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    chain = [role(f"r{number}", 1, priority=number) for number in range(1, 9)]
    await cluster.write(service_object("s", chain, **BY_PRIORITY))
    before = retries()
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

    made = [name for verb, kind, name in operator_client.writes_in(cluster.namespace) if (verb, kind) == ("apply", "Deployment")]
    assert made == [f"s-r{number}-0" for number in range(1, 9)]
    assert retries() == before


async def test_v42_roles_of_one_number_start_together(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    """Vector 42."""
    pods.hold = True
    await cluster.write(service_object("s", [role("a", priority=5), role("b", priority=5), role("c", priority=6)], **BY_PRIORITY))
    async with running_operator(operator_client):
        await cluster.until_names(DEPLOYMENT, "s-a-0", "s-b-0")
        await until_waiting(cluster, "s-c", "0 of 1 WorkLoad replicas are ready; waiting for roles a, b")


async def test_only_new_instances_wait_while_an_earlier_role_is_not_ready(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    roles = [role("first", 1, priority=1), role("second", 2, "StatefulSet", priority=2)]
    await cluster.write(service_object("s", roles, **BY_PRIORITY))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        pods.hold = True
        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/replicas", 2))
        await cluster.until_names(DEPLOYMENT, "s-first-0", "s-first-1")

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/1/replicas", 3))
        await until_waiting(cluster, "s-second", "2 of 3 WorkLoad replicas are ready; waiting for role first")
        assert await cluster.names(STATEFUL_SET) == ["s-second-0", "s-second-1"]

        before = await cluster.uids(SERVICE)
        await cluster.delete(SERVICE, "service-s-second-0")
        await eventually(lambda: _is_new(cluster, before, "Service/service-s-second-0"), "a Service is healed", 60)

        await cluster.edit(STATEFUL_SET, "s-second-0", ("replace", "/spec/replicas", 4))

        async def is_taken_back() -> bool:
            return bool((await cluster.get(STATEFUL_SET, "s-second-0"))["spec"]["replicas"] == 1)

        await eventually(is_taken_back, "an edit is taken back", 60)

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/1/replicas", 1))
        await cluster.until_names(STATEFUL_SET, "s-second-0")
        await cluster.until_ready(INSTANCE_SET, "s-second")

        image = "/spec/roles/1/spec/template/spec/containers/0/image"
        await cluster.edit(INFER_SERVICE, "s", ("replace", image, "example/none:2"))

        async def is_on_its_way() -> bool:
            said = await cluster.condition(INSTANCE_SET, "s-second")
            return said is not None and said[1] == "ReplicasNotReady" and "waiting for role" not in said[2]

        await eventually(is_on_its_way, "a new template is no wait for other roles", 60)

        pods.release()
        await cluster.until_ready(INFER_SERVICE, "s")


async def _is_new(cluster: Cluster, before: dict[str, str], name: str) -> bool:
    return (await cluster.uids(SERVICE)).get(name) not in (None, before[name])


async def test_a_ready_service_is_healed_and_scaled_under_priority_as_ever(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service_object("s", [role("a", 1, priority=1), role("b", 1, "StatefulSet", priority=2)], **BY_PRIORITY))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        before = await cluster.uids(SERVICE)
        await cluster.delete(SERVICE, "service-s-b-0")
        await eventually(lambda: _is_new(cluster, before, "Service/service-s-b-0"), "a Service is healed", 60)

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/1/replicas", 2))
        await cluster.until_names(STATEFUL_SET, "s-b-0", "s-b-1")
        await cluster.until_ready(INFER_SERVICE, "s")


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(("replace", "/spec/schedulingStrategy/type", "Parallel"), id="strategy"),
        pytest.param(("replace", "/spec/roles/1/priority", 1), id="priority"),
        pytest.param(("replace", "/spec/roles/0/priority", 3), id="priority-of-the-other"),
        pytest.param(("remove", "/spec/roles/0", None), id="role-removed"),
        pytest.param(("replace", "/spec/roles/0/replicas", 0), id="role-switched-off"),
    ],
)
async def test_an_edit_that_ends_the_wait_is_followed_at_once(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, edit: tuple[str, str, Any]
) -> None:
    pods.hold = True
    await cluster.write(service_object("s", [role("a", priority=1), role("b", 1, "StatefulSet", priority=2)], **BY_PRIORITY))
    async with running_operator(operator_client):
        await until_waiting(cluster, "s-b", "0 of 1 WorkLoad replicas are ready; waiting for role a")

        await cluster.edit(INFER_SERVICE, "s", edit)
        await cluster.until_names(STATEFUL_SET, "s-b-0")


async def test_a_role_that_cannot_run_holds_up_those_behind_it_and_is_told(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    broken: Object = role("a", None, priority=1)
    await cluster.write(service_object("s", [broken, role("b", priority=2)], **BY_PRIORITY))
    async with running_operator(operator_client):
        assert "role a: replicas is missing" in await cluster.until_blocked(INFER_SERVICE, "s")
        await until_waiting(cluster, "s-b", "0 of 1 WorkLoad replicas are ready; waiting for role a")

        await cluster.edit(INFER_SERVICE, "s", ("add", "/spec/roles/0/replicas", 1))
        await cluster.until_ready(INFER_SERVICE, "s")


async def test_an_instance_that_waits_reserves_nothing(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    """A PodGroup alone makes Volcano set its resources aside, which the roles ahead may need."""
    pods.hold = True
    gang: dict[str, Any] = {"metadata": {"labels": {GANG_SCHEDULE: "true"}}}
    roles = [role("a", priority=1, **gang), role("b", 1, "StatefulSet", priority=2, **gang)]
    async with volcano.installed(cluster.client), running_operator(operator_client):
        await cluster.write(service_object("s", roles, **BY_PRIORITY))
        await until_waiting(cluster, "s-b", "0 of 1 WorkLoad replicas are ready; waiting for role a")
        await cluster.until_quiet(operator_client)
        assert await cluster.names(POD_GROUP) == ["pg-s-a-0"]

        pods.release()
        await cluster.until_ready(INFER_SERVICE, "s")
        assert await cluster.names(POD_GROUP) == ["pg-s-a-0", "pg-s-b-0"]


@pytest.mark.parametrize(
    "strategy, priority, words",
    [
        pytest.param("Foo", None, ["Foo", "Parallel, Priority"], id="V44"),
        pytest.param("Serial", 1, ["Serial"], id="V65"),
        pytest.param("Priority", 33, ["role lone", "priority is 33", "1-32"], id="V66"),
        pytest.param("Priority", 0, ["role lone", "priority is 0", "1-32"], id="V15"),
    ],
)
async def test_v44_an_order_that_means_nothing_on_a_hand_written_instance_set_is_told(
    cluster: Cluster, operator_client: RecordingClient, strategy: str, priority: int | None, words: list[str]
) -> None:
    """Vectors 44, 65 and 66: the schema knows nothing of labels."""
    labels = {SCHEDULING_STRATEGY: strategy}
    await cluster.write(instance_set_object("lone", role("lone", priority=priority), labels))
    async with running_operator(operator_client):
        message = await cluster.until_blocked(INSTANCE_SET, "lone")
        await cluster.until_quiet(operator_client)

        assert all(word in message for word in words)
        assert await cluster.names(DEPLOYMENT) == []
        assert await cluster.events("ValidateError") == [("InstanceSet/lone", 1)]


async def test_a_hand_written_instance_set_has_nobody_to_wait_for(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(instance_set_object("lone", role("lone", priority=7), {SCHEDULING_STRATEGY: "Priority"}))
    async with running_operator(operator_client):
        await cluster.until_ready(INSTANCE_SET, "lone")
