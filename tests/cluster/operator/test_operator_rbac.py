# SPDX-License-Identifier: Apache-2.0
"""The operator under its own ServiceAccount: it is never refused, and has no right that it does not use.

The API server's audit log is the witness. The control plane is one of its own, since auditing costs every other test time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.api.crds import all_crds
from controller_runtime.api.labels import GANG_SCHEDULE
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.kind import (
    CONFIG_MAP,
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    POD,
    POD_GROUP,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Kind,
    Object,
)
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.reconcilers.operator import OperatorSettings, build_operator
from tests.support import volcano
from tests.support.control_plane import ControlPlane, kubeconfig_bytes
from tests.support.eventually import eventually
from tests.support.fake_node import running_node
from tests.support.infer import instance_set_object, role, service, service_object, set_object
from tests.support.objects import config_map
from tests.support.operator_rights import operator_namespace_rights, operator_rights
from tests.support.operator_run import Cluster
from tests.support.ready_pods import ReadyPods

pytestmark = pytest.mark.cluster

ACCOUNT, OWN_NAMESPACE = "infer-operator-manager", "operator"
USER = f"system:serviceaccount:{OWN_NAMESPACE}:{ACCOUNT}"
SUBJECT = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": OWN_NAMESPACE}
METRIC = {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}
SCALED: dict[str, Any] = {"scalingPolicy": {"type": "HPA", "spec": {"minReplicas": 1, "maxReplicas": 2, "metrics": [METRIC]}}}
GANG: dict[str, Any] = {"metadata": {"labels": {GANG_SCHEDULE: "true"}}}

Use = tuple[str, str, str]
"""API group, resource with subresource, verb."""


@pytest.fixture(scope="module")
def audited_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that notes every request, with the operator's account and exactly its rights."""
    plane = ControlPlane(Path(tmp_path_factory.mktemp("audited-plane")), controller_manager=True, audit=True)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": OWN_NAMESPACE}}
    rights = [*operator_rights(SUBJECT), *operator_namespace_rights(SUBJECT, OWN_NAMESPACE)]
    try:
        plane.start()
        everything = {"apiVersion": "v1", "kind": "List", "items": [namespace, account, *all_crds(), *rights]}
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(everything))
        names = [f"crd/{crd['metadata']['name']}" for crd in all_crds()]
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        yield plane
    finally:
        plane.stop()


@pytest.fixture
async def cluster(audited_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """A namespace for services, seen by an administrator."""
    client = KubeClient(load_config(str(audited_plane.kubeconfig)), qps=10_000, burst=10_000)
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "services"}})
    yield Cluster(client, "services")
    await client.close()


@pytest.fixture
async def operator_client(audited_plane: ControlPlane, cluster: Cluster) -> AsyncIterator[KubeClient]:
    """A client that shows a token of the operator's account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await cluster.client.call("POST", SERVICE_ACCOUNT.path(OWN_NAMESPACE, ACCOUNT, "token"), request)
    kubeconfig = audited_plane.directory / "account.kubeconfig"
    kubeconfig.write_bytes(kubeconfig_bytes(audited_plane.url, audited_plane.ca_file, {"token": answer["status"]["token"]}))
    client = KubeClient(load_config(str(kubeconfig)), qps=10_000, burst=10_000)
    yield client
    await client.close()


def requests(plane: ControlPlane) -> list[dict[str, Any]]:
    """What the operator asked for."""
    noted = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    return [each for each in noted if each["user"]["username"] == USER]


def refused_to(plane: ControlPlane) -> set[Use]:
    """What the operator asked for in vain."""
    return {use_of(each) for each in requests(plane) if each["responseStatus"].get("code") == 403}


def use_of(request: dict[str, Any]) -> Use:
    """Which right a request takes."""
    obj = request.get("objectRef", {})
    resource = "/".join(part for part in (obj.get("resource", ""), obj.get("subresource")) if part)
    return obj.get("apiGroup", ""), resource, request["verb"]


def granted() -> set[Use]:
    """Every single right."""
    rules = [rule for right in (*operator_rights(SUBJECT), *operator_namespace_rights(SUBJECT, "o")) for rule in right.get("rules", ())]
    return {
        (group, resource, verb) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    }


def test_no_right_is_a_wildcard() -> None:
    assert not [use for use in granted() if "*" in "".join(use)]


def is_taken_silently(use: Use, used: set[Use]) -> bool:
    """A server-side apply that makes an object takes `create` but is noted as a patch; admission checks `finalizers` on its own."""
    group, resource, verb = use
    return resource.endswith("/finalizers") or (verb == "create" and (group, resource, "patch") in used)


async def drive(cluster: Cluster, pods: ReadyPods) -> None:
    """The whole life of a service: made, changed, scaled, faulty, on a lost node, deleted."""
    client, namespace = cluster.client, cluster.namespace
    roles = [
        role("gang", 2, "StatefulSet", 2, services=[service("front")], **GANG),
        role("loose", 2, "Deployment", 2, **GANG),
        role("scaled", 1, "Deployment", **SCALED),
    ]
    async with running_node(client, "node") as node:
        pods.node = node.name
        await cluster.write(set_object("x", roles, 2))
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        path = "/spec/template/roles"
        for edit in (
            ("add", f"{path}/0/metadata/labels/team", "a"),
            ("replace", f"{path}/0/spec/replicas", 1),
            ("replace", f"{path}/0/replicas", 1),
            ("replace", f"{path}/1/replicas", 1),
            ("remove", f"{path}/2/scalingPolicy", None),
            ("replace", "/spec/replicas", 1),
        ):
            await cluster.edit(INFER_SERVICE_SET, "x", edit)
        await cluster.until_names(HORIZONTAL_POD_AUTOSCALER)
        await cluster.edit(INFER_SERVICE_SET, "x", ("remove", f"{path}/2", None))
        await cluster.until_names(INSTANCE_SET, "x-0-gang", "x-0-loose")
        await cluster.until_names(STATEFUL_SET, "x-0-gang-0")
        await cluster.until_names(POD_GROUP, "pg-x-0-gang-0", "pg-x-0-loose-0")
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        before = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
        (victim, *_) = [name for name in await cluster.names(POD) if name.startswith("x-0-loose-0")]
        await client.patch(POD, "x-0-gang-0-0", namespace, {"metadata": {"annotations": {"huawei.com/pod-status": "Unhealthy-node"}}})
        await cluster.delete(POD, victim)
        await eventually(lambda: _are_rebuilt(cluster, before, "StatefulSet/x-0-gang-0", "Deployment/x-0-loose-0"), "both are rebuilt", 60)
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        old = await cluster.uids(POD)
        node.renews = False
        await node.renew(age_s=120)
        await node.report("Unknown")
        await eventually(lambda: _are_gone(cluster, old), "the pods of the lost node are replaced", 60)

        for bad in ("one", "two"):
            await client.apply(config_map(OWN_NAMESPACE, "infer-operator-config", fault_handling="maybe", other=bad))
        await eventually(lambda: _is_repeated(cluster), "the same Event is counted", 30)
        await client.delete(CONFIG_MAP, "infer-operator-config", OWN_NAMESPACE)
        await meet_strangers(cluster)
        for name in ("w", "x", "y", "z"):
            await cluster.delete(INFER_SERVICE_SET, name)
        await cluster.until_names(INFER_SERVICE, "y-0")
        await cluster.until_names(INSTANCE_SET, "y-0-theirs", "z-0-s")
        for kind in (STATEFUL_SET, DEPLOYMENT):
            await cluster.until_names(kind)


async def meet_strangers(cluster: Cluster) -> None:
    """Names of children belong to somebody else: an InferService, an InstanceSet, and what an InstanceSet makes."""
    roles = [role("h", **SCALED), role("g", 1, "StatefulSet", **GANG), role("w")]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    for obj in (
        service_object("y-0", [role("theirs", 0)]),
        instance_set_object("z-0-s", role("theirs", 0)),
        _stranger(HORIZONTAL_POD_AUTOSCALER, "w-0-h-scaler", {"maxReplicas": 1, "scaleTargetRef": target}),
        _stranger(POD_GROUP, "pg-w-0-g-0", {"minMember": 1}),
        _stranger(SERVICE, "service-w-0-w-0", {"ports": [{"port": 1}]}),
    ):
        await cluster.write(obj)
    for name, wanted in (("w", roles), ("y", [role("s")]), ("z", [role("s")])):
        await cluster.write(set_object(name, wanted))
        await cluster.until_blocked(INFER_SERVICE_SET, name, "NameConflict")


def _stranger(kind: Kind, name: str, spec: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


async def _are_rebuilt(cluster: Cluster, before: dict[str, str], *names: str) -> bool:
    now = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
    return {name for name, uid in before.items() if now.get(name, uid) != uid} == set(names)


async def _are_gone(cluster: Cluster, old: dict[str, str]) -> bool:
    return set((await cluster.uids(POD)).values()).isdisjoint(old.values())


async def _is_repeated(cluster: Cluster) -> bool:
    return await Cluster(cluster.client, OWN_NAMESPACE).events("InvalidSetting") == [("ConfigMap/infer-operator-config", 2)]


@pytest.mark.timeout(300)
async def test_the_operator_is_never_refused_and_uses_every_right_it_has(
    audited_plane: ControlPlane, cluster: Cluster, operator_client: KubeClient
) -> None:
    pods = ReadyPods(cluster.client, cluster.namespace)
    stop = asyncio.Event()
    elector = LeaseElector(operator_client, OWN_NAMESPACE, "infer-operator", "test")
    settings = OperatorSettings(namespace=OWN_NAMESPACE, node_cleaner_delay_s=0)
    async with volcano.installed(cluster.client), asyncio.TaskGroup() as group:
        group.create_task(pods.run(stop))
        group.create_task(build_operator(operator_client, settings, elector=elector).run(stop))
        try:
            await drive(cluster, pods)
        except AssertionError as error:
            raise AssertionError(f"{error}; refused: {refused_to(audited_plane)}") from error
        finally:
            stop.set()

    assert refused_to(audited_plane) == set()
    used = {use_of(each) for each in requests(audited_plane)}
    assert {use for use in granted() - used if not is_taken_silently(use, used)} == set()
