# SPDX-License-Identifier: Apache-2.0
"""Changed templates on a real API server: the order, the budget, and edits that come in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_runtime.api.labels import APPLIED_HASH, REVISION
from controller_runtime.kube.errors import InvalidError
from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET, POD, STATEFUL_SET, Object
from controller_runtime.reconcilers.rollout import revision
from tests.support.binaries import binary
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.infer import pod_template, role, service_object, set_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient
from tests.support.rollout_watch import RolloutWatch, watching

pytestmark = pytest.mark.cluster

A, B, C, BAD = (f"example/none:{tag}" for tag in ("a", "b", "c", "bad"))


def pd(name: str, replicas: int, image: str = A, kind: str = "StatefulSet", **more: Any) -> Object:
    template = pod_template(None, None, {"name": "infer", "image": image})
    return role(name, replicas, kind, spec={"replicas": 1, "template": template}, **more)


def image_of(number: int, image: str) -> tuple[str, str, str]:
    return ("replace", f"/spec/roles/{number}/spec/template/spec/containers/0/image", image)


async def status_of(cluster: Cluster, kind: Any, name: str) -> Any:
    return (await cluster.get(kind, name)).get("status", {}).get("rollout") or {}


async def until_all(watch: RolloutWatch, name: str, replicas: int, image: str) -> None:
    await eventually(lambda: watch.images(name) == dict.fromkeys(range(replicas), image), f"{name} all {image}", 60)


async def printed_plan(plane: ControlPlane, cluster: Cluster, path: Path, new: Object) -> tuple[int, Any]:
    """Exit code and JSON of `ascend-pd rollout plan`, which asks the cluster for what is applied now."""
    await asyncio.to_thread(path.write_text, yaml.safe_dump(new))
    environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig), "PATH": f"{binary('kubectl').parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "controller_runtime.cli.ascend_pd", "rollout", "plan", "-f", str(path), "-n", cluster.namespace]
    process = await asyncio.create_subprocess_exec(*command, "--output", "json", env=environment, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return process.returncode or 0, json.loads(out)["objects"][0]["plan"]


def without_namespace(obj: Object) -> Object:
    return {**obj, "metadata": {"name": obj["metadata"]["name"]}}


async def test_the_printed_plan_is_what_happens(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, workload_plane: ControlPlane, tmp_path: Path
) -> None:
    surge = {"maxSurge": 1, "maxUnavailable": 0}
    old = service_object("s", [pd("prefill", 3), pd("decode", 1, rolloutStrategy=surge), pd("router", 1, kind="Deployment")])
    new = service_object("s", [pd("prefill", 3, B), pd("decode", 1, B, rolloutStrategy=surge), pd("router", 1, B, kind="Deployment")])
    await cluster.write(old)
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        await watch.mark()
        code, plan = await printed_plan(workload_plane, cluster, tmp_path / "new.yaml", without_namespace(new))

        await cluster.edit(INFER_SERVICE, "s", image_of(0, B), image_of(1, B), image_of(2, B))
        await until_all(watch, "router", 1, B)
        await cluster.until_ready(INFER_SERVICE, "s")

        assert code == 0
        for name in ("prefill", "decode", "router"):
            observed = [(sum(i == A for i in state.values()), sum(i == B for i in state.values())) for state in watch.history[name]]
            planned = [observed[0], *((row["roles"][name]["old"], row["roles"][name]["new"]) for row in plan["steps"])]
            assert observed == [each for each, before in zip(planned, [None, *planned], strict=False) if each != before]
            assert watch.least(name) == plan["minimumServing"][name]
        assert watch.history["prefill"][1:] == [{0: A, 1: A, 2: B}, {0: A, 1: B, 2: B}, {0: B, 1: B, 2: B}]
        rollout = await status_of(cluster, INFER_SERVICE, "s")
        assert (rollout["step"], rollout["steps"], rollout["newInstances"], rollout["oldInstances"]) == (5, 5, 5, 0)


async def test_a_plan_that_stops_decode_is_refused(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, workload_plane: ControlPlane, tmp_path: Path
) -> None:
    await cluster.write(set_object("x", [pd("prefill", 2), pd("decode", 1)]))
    new = without_namespace(set_object("x", [pd("prefill", 2, B), pd("decode", 1, B)]))

    code, plan = await printed_plan(workload_plane, cluster, tmp_path / "new.yaml", new)

    assert code == 1
    assert plan["minimumServing"] == {"prefill": 1, "decode": 0}
    assert "maxSurge" in plan["problems"][0]


@pytest.mark.parametrize(
    "field, value",
    [
        ("rolloutStrategy", {"maxUnavailable": 0}),
        ("rolloutStrategy", {"maxUnavailable": -1}),
        ("rolloutStrategy", {"maxSurge": 257}),
        ("rolloutStrategy", {"progressDeadlineSeconds": 0}),
        ("drainTimeoutSeconds", -1),
    ],
)
async def test_a_strategy_that_cannot_work_is_refused_when_written(cluster: Cluster, field: str, value: Any) -> None:
    with pytest.raises(InvalidError, match=field):
        await cluster.write(set_object("x", [pd("r", 1, **{field: value})]))


async def test_decode_waits_for_prefill_and_says_so(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(set_object("x", [pd("prefill", 2), pd("decode", 2)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        pods.hold = True
        template = "/spec/template/roles/{}/spec/template/spec/containers/0/image"
        edits = [("replace", template.format(number), B) for number in (0, 1)]
        await cluster.edit(INFER_SERVICE_SET, "x", *edits, ("replace", "/spec/template/roles/1/replicas", 3))
        await eventually(lambda: watch.images("prefill") == {0: A, 1: B}, "prefill starts", 60)
        await eventually(lambda: watch.images("decode") == {0: A, 1: A, 2: A}, "decode scales with its old template", 60)

        async def told() -> bool:
            rollout = await status_of(cluster, INFER_SERVICE_SET, "x")
            return "role decode waits for role prefill" in rollout.get("message", "") and (rollout["step"], rollout["steps"]) == (0, 5)

        await eventually(told, "the set tells who waits", 60)
        assert (await cluster.condition(INFER_SERVICE_SET, "x") or ("",))[0] == "False"
        pods.release()
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await until_all(watch, "decode", 3, B)
        assert (await status_of(cluster, INFER_SERVICE_SET, "x"))["step"] == 5
        annotations = (await cluster.get(INSTANCE_SET, "x-0-decode"))["metadata"]["annotations"]
        assert set(annotations) == {APPLIED_HASH}


async def test_a_second_update_during_the_first_replans(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [pd("r", 4)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        await watch.mark()
        pods.hold = True
        await cluster.edit(INFER_SERVICE, "s", image_of(0, B))
        await eventually(lambda: watch.images("r").get(3) == B, "the first update began", 60)
        await cluster.edit(INFER_SERVICE, "s", image_of(0, C))
        await eventually(lambda: watch.images("r").get(3) == C, "the second replaces it", 60)
        assert watch.images("r") == {0: A, 1: A, 2: A, 3: C}
        pods.release()
        await cluster.until_ready(INFER_SERVICE, "s")

        await until_all(watch, "r", 4, C)
        assert all(state.get(index) != B for state in watch.history["r"] for index in (0, 1, 2))
        assert watch.least("r") >= 3


async def test_three_rapid_updates_end_at_the_last(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [pd("prefill", 2), pd("decode", 3)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        await watch.mark()
        for image in (B, BAD, C):
            await cluster.edit(INFER_SERVICE, "s", image_of(0, image), image_of(1, image))
        await until_all(watch, "prefill", 2, C)
        await until_all(watch, "decode", 3, C)
        await cluster.until_ready(INFER_SERVICE, "s")

        assert (watch.least("prefill"), watch.least("decode")) == (1, 2)


async def test_reverting_halfway_goes_back(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [pd("prefill", 3), pd("decode", 2)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        untouched = (await cluster.uids(POD))["Pod/s-decode-0-0"]
        await watch.mark()
        pods.hold = True
        await cluster.edit(INFER_SERVICE, "s", image_of(0, B), image_of(1, B))
        await eventually(lambda: watch.images("prefill").get(2) == B, "it began", 60)
        await cluster.edit(INFER_SERVICE, "s", image_of(0, A), image_of(1, A))
        await until_all(watch, "prefill", 3, A)
        pods.release()
        await cluster.until_ready(INFER_SERVICE, "s")

        assert watch.history["decode"] == [{0: A, 1: A}]
        assert (await cluster.uids(POD))["Pod/s-decode-0-0"] == untouched


async def test_a_template_that_never_starts_stops_is_told_once_and_a_good_one_recovers(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    strategy = {"progressDeadlineSeconds": 2}
    await cluster.write(set_object("x", [pd("prefill", 3, rolloutStrategy=strategy), pd("decode", 1)]))
    image = "/spec/template/roles/{}/spec/template/spec/containers/0/image"
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await watch.mark()
        pods.hold = True
        await cluster.edit(INFER_SERVICE_SET, "x", *(("replace", image.format(number), BAD) for number in (0, 1)))

        message = await cluster.until_blocked(INFER_SERVICE_SET, "x", "RolloutStuck")
        await cluster.until_quiet(operator_client)

        assert "role prefill: instance x-0-prefill-2 is not ready" in message
        assert "Apply a template that starts" in message
        assert await cluster.events("RolloutStuck") == [("InferServiceSet/x", 1)]
        assert (watch.images("prefill"), watch.images("decode")) == ({0: A, 1: A, 2: BAD}, {0: A})
        assert watch.least("prefill") == 2

        pods.hold = False
        await cluster.edit(INFER_SERVICE_SET, "x", *(("replace", image.format(number), C) for number in (0, 1)))
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        assert (watch.images("prefill"), watch.images("decode")) == ({0: C, 1: C, 2: C}, {0: C})
        assert all(BAD not in (state.get(0), state.get(1)) for state in watch.history["prefill"])


async def test_a_single_instance_that_never_starts_is_told_too(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [pd("r", 1, kind="Deployment", rolloutStrategy={"progressDeadlineSeconds": 2})]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        pods.hold = True
        await cluster.edit(INFER_SERVICE, "s", image_of(0, BAD))
        assert "instance s-r-0" in await cluster.until_blocked(INFER_SERVICE, "s", "RolloutStuck")

        pods.release()
        await cluster.until_ready(INFER_SERVICE, "s")


async def test_extra_instances_keep_every_declared_one_in_service(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    strategy = {"maxUnavailable": 0, "maxSurge": 1}
    await cluster.write(service_object("s", [pd("prefill", 1, rolloutStrategy=strategy), pd("decode", 1, rolloutStrategy=strategy)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        await watch.mark()
        await cluster.edit(INFER_SERVICE, "s", image_of(0, B), image_of(1, B))
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_names(STATEFUL_SET, "s-decode-0", "s-prefill-0")

        for name in ("prefill", "decode"):
            assert watch.history[name] == [{0: A}, {0: A, 1: B}, {0: B, 1: B}, {0: B}]
            assert watch.least(name) == 1


async def test_a_partition_leaves_the_lower_ones_and_lets_the_next_role_go_on(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service_object("s", [pd("prefill", 3, rolloutStrategy={"partition": 2}), pd("decode", 1)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.edit(INFER_SERVICE, "s", image_of(0, B), image_of(1, B))
        await cluster.until_ready(INFER_SERVICE, "s")

        assert (watch.images("prefill"), watch.images("decode")) == ({0: A, 1: A, 2: B}, {0: B})
        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/rolloutStrategy/partition", 0))
        await until_all(watch, "prefill", 3, B)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("add", "/spec/roles/0/spec/podManagementPolicy", "Parallel"), id="immutable-field"),
        pytest.param(("replace", "/spec/roles/0/workload/kind", "Deployment"), id="kind"),
    ],
)
async def test_instances_that_must_be_made_again_obey_the_same_budget(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, change: tuple[str, str, Any]
) -> None:
    """What must be deleted first goes one by one too. Section 3.6."""
    await cluster.write(service_object("s", [pd("r", 3)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        before = set((await cluster.uids(STATEFUL_SET)).values())
        await watch.mark()
        await cluster.edit(INFER_SERVICE, "s", change)
        await cluster.until_ready(INFER_SERVICE, "s")

        assert not before & set((await cluster.uids(STATEFUL_SET, DEPLOYMENT)).values())
        assert len(await cluster.uids(STATEFUL_SET, DEPLOYMENT)) == 3
        assert watch.least("r") == 2


async def test_4_to_0_to_4_at_once_ends_with_four(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [pd("r", 4)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        for replicas in (0, 4):
            await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/replicas", replicas))
        await until_all(watch, "r", 4, A)
        await cluster.until_ready(INFER_SERVICE, "s")


async def test_a_changed_list_of_roles_and_templates_together(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [pd("old", 2), pd("prefill", 2), pd("decode", 2)]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        await watch.mark()
        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles", [pd("decode", 2, B), pd("new", 1, B), pd("prefill", 2, B)]))
        await until_all(watch, "prefill", 2, B)
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_names(INSTANCE_SET, "s-decode", "s-new", "s-prefill")

        assert (watch.images("decode"), watch.images("new")) == ({0: B, 1: B}, {0: B})
        assert (watch.least("prefill"), watch.least("decode")) == (1, 1)


async def test_scaling_from_outside_while_the_template_changes_loses_neither(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    spec = {"minReplicas": 1, "maxReplicas": 6}
    await cluster.write(service_object("s", [pd("r", 2, scalingPolicy={"type": "HPA", "spec": spec})]))
    async with running_operator(operator_client), watching(cluster.client, cluster.namespace) as watch:
        await cluster.until_ready(INFER_SERVICE, "s")
        await watch.mark()
        await cluster.edit(INFER_SERVICE, "s", image_of(0, B))
        await cluster.edit(INSTANCE_SET, "s-r", ("replace", "/spec/replicas", 4))
        await until_all(watch, "r", 4, B)
        await cluster.until_ready(INFER_SERVICE, "s")

        assert watch.least("r") >= 1


async def test_scaling_down_while_pods_are_pending(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    pods.hold = True
    await cluster.write(service_object("s", [pd("r", 4, drainTimeoutSeconds=600)]))
    async with running_operator(operator_client):
        await cluster.until_names(STATEFUL_SET, "s-r-0", "s-r-1", "s-r-2", "s-r-3")
        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/replicas", 1))
        await cluster.until_names(STATEFUL_SET, "s-r-0")
        pods.release()
        await cluster.until_ready(INFER_SERVICE, "s")


async def test_a_newer_hash_format_restarts_nothing_and_a_scaled_to_zero_role_comes_back(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.write(service_object("s", [pd("r", 2), pd("off", 0)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
    before = await cluster.uids(STATEFUL_SET, POD)
    generation = (await cluster.get(STATEFUL_SET, "s-r-0"))["metadata"]["generation"]
    monkeypatch.setattr(revision, "FORMAT", "v2")

    async with running_operator(operator_client):

        async def is_marked() -> bool:
            found = [await cluster.get(STATEFUL_SET, name) for name in ("s-r-0", "s-r-1")]
            return all(each["metadata"]["annotations"][REVISION].startswith("v2-") for each in found)

        await eventually(is_marked, "the mark is renewed", 60)
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_quiet(operator_client)
        assert await cluster.uids(STATEFUL_SET, POD) == before
        assert (await cluster.get(STATEFUL_SET, "s-r-0"))["metadata"]["generation"] == generation

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/1/replicas", 1))
        await cluster.until_names(STATEFUL_SET, "s-off-0", "s-r-0", "s-r-1")
        await cluster.until_ready(INFER_SERVICE, "s")


async def test_an_object_replaced_without_its_annotations_is_marked_again_and_restarts_nothing(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service_object("s", [pd("r", 2)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        before = await cluster.uids(STATEFUL_SET, POD)
        for kind, name in ((STATEFUL_SET, "s-r-0"), (STATEFUL_SET, "s-r-1"), (INSTANCE_SET, "s-r")):
            await cluster.edit(kind, name, ("remove", "/metadata/annotations", None))

        async def is_marked() -> bool:
            found = [await cluster.get(STATEFUL_SET, name) for name in ("s-r-0", "s-r-1")]
            return all({REVISION, APPLIED_HASH} <= each["metadata"].get("annotations", {}).keys() for each in found)

        await eventually(is_marked, "the annotations are back", 60)
        await cluster.until_ready(INFER_SERVICE, "s")
        assert await cluster.uids(STATEFUL_SET, POD) == before


async def test_a_label_of_a_role_reaches_its_workloads_without_a_restart(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Labels follow their role at once; they are no reason for a rollout. Defect 1."""
    await cluster.write(service_object("s", [pd("prefill", 2, metadata={"labels": {"team": "a"}}), pd("decode", 1)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        before = await cluster.uids(STATEFUL_SET, POD)
        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/metadata/labels/team", "b"))

        async def is_there() -> bool:
            found = [await cluster.get(STATEFUL_SET, f"s-prefill-{index}") for index in (0, 1)]
            return {each["metadata"]["labels"]["team"] for each in found} == {"b"}

        await eventually(is_there, "the label is there", 60)
        await cluster.until_ready(INFER_SERVICE, "s")
        assert await cluster.uids(STATEFUL_SET, POD) == before
