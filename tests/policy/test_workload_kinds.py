# SPDX-License-Identifier: Apache-2.0
"""The pod rules see a container wherever Kubernetes, or a custom resource, lets one stand."""

from __future__ import annotations

from copy import deepcopy
from datetime import date
from typing import Any

import pytest

from controller_runtime.rules import ALL, judge

POD_RULES = {"S1", "S2", "S3", "S4", "S5", "S10", "S18", "S21", "S24"}
GOOD_CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "r/x:1.2.3",
    "args": ["--listen=$(POD_IP):80"],
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
BAD_CONTAINER: dict[str, Any] = {
    "name": "bad",
    "image": "r/x",
    "args": ["--listen=0.0.0.0:80", "--password=x1"],
    "ports": [{"hostPort": 80}],
    "securityContext": {"privileged": True, "runAsUser": 0, "seccompProfile": {"type": "Unconfined"}},
}
GOOD_POD: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [GOOD_CONTAINER],
}


def template(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "x"}}, "spec": spec}


def workload(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one", "namespace": "mindie"}, "spec": spec}


def role(spec: dict[str, Any]) -> dict[str, Any]:
    return {"name": "prefill", "workload": {"kind": "StatefulSet"}, "spec": {"template": template(spec)}}


SHAPES = {
    "Pod": lambda spec: workload("v1", "Pod", spec),
    "PodTemplate": lambda spec: {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "one"}, "template": template(spec)},
    "Deployment": lambda spec: workload("apps/v1", "Deployment", {"template": template(spec)}),
    "DeploymentPatch": lambda spec: workload("apps/v1", "DeploymentPatch", {"template": template(spec)}),
    "StatefulSet": lambda spec: workload("apps/v1", "StatefulSet", {"template": template(spec)}),
    "DaemonSet": lambda spec: workload("apps/v1", "DaemonSet", {"template": template(spec)}),
    "ReplicaSet": lambda spec: workload("apps/v1", "ReplicaSet", {"template": template(spec)}),
    "ReplicationController": lambda spec: workload("v1", "ReplicationController", {"template": template(spec)}),
    "Job": lambda spec: workload("batch/v1", "Job", {"template": template(spec)}),
    "CronJob": lambda spec: workload("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": template(spec)}}}),
    "DeploymentList": lambda spec: {
        "apiVersion": "apps/v1",
        "kind": "DeploymentList",
        "items": [workload("apps/v1", "Deployment", {"template": template(spec)})],
    },
    "List": lambda spec: {"apiVersion": "v1", "kind": "List", "items": [workload("v1", "Pod", spec)]},
    "AscendJob": lambda spec: workload("mindxdl.gitee.com/v1", "AscendJob", {"replicaSpecs": {"Master": {"template": template(spec)}}}),
    "InferServiceSet": lambda spec: workload(
        "mindcluster.huawei.com/v1", "InferServiceSet", {"replicas": 1, "template": {"roles": [role(spec)]}}
    ),
    "InferService": lambda spec: workload("mindcluster.huawei.com/v1", "InferService", {"roles": [role(spec)]}),
    "InstanceSet": lambda spec: workload("mindcluster.huawei.com/v1", "InstanceSet", {"spec": {"template": template(spec)}}),
    "LeaderWorkerSet": lambda spec: workload(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": template(spec)}}
    ),
}


def fired(obj: dict[str, Any]) -> set[str]:
    return {rule.id for rule in ALL if list(judge(rule, obj, today=date(2026, 1, 1)))}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_good_pod_passes_in_every_shape(shape: str) -> None:
    assert fired(SHAPES[shape](deepcopy(GOOD_POD))) == set()


@pytest.mark.parametrize("container_list", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_bad_container_is_seen_in_every_shape_and_list(shape: str, container_list: str) -> None:
    spec = deepcopy(GOOD_POD)
    spec[container_list] = [*spec.get(container_list, []), deepcopy(BAD_CONTAINER)]

    assert fired(SHAPES[shape](spec)) == POD_RULES


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bad_pod_setting_is_seen_in_every_shape(shape: str) -> None:
    spec = deepcopy(GOOD_POD) | {"hostNetwork": True, "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "Unconfined"}}}

    assert fired(SHAPES[shape](spec)) == {"S1", "S5", "S24"}


def test_a_member_of_a_list_is_named_itself() -> None:
    obj = SHAPES["DeploymentList"](deepcopy(GOOD_POD) | {"hostPID": True})
    (violation,) = [violation for rule in ALL for violation in judge(rule, obj, today=date(2026, 1, 1))]

    assert str(violation.ref) == "Deployment mindie/one"


def test_the_schema_of_a_custom_resource_holds_no_pods() -> None:
    definition = workload(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", {"versions": [{"example": template(deepcopy(BAD_CONTAINER))}]}
    )
    definition["spec"]["sample"] = {"containers": [BAD_CONTAINER]}

    assert fired(definition) == set()
