# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.reconcilers.workloads.stateful_set import StatefulSetHandler
from tests.support.infer import infer_service, role, view

HANDLER = StatefulSetHandler()


def stateful_set(
    ready: int = 2, updated: int = 2, current: str = "a", update: str = "a", observed: int = 1, generation: int = 1
) -> dict[str, Any]:
    status = {"readyReplicas": ready, "updatedReplicas": updated, "currentRevision": current, "updateRevision": update}
    return {"metadata": {"generation": generation}, "spec": {"replicas": 2}, "status": {**status, "observedGeneration": observed}}


@pytest.mark.parametrize(
    "workload, ready",
    [
        pytest.param(stateful_set(update="b"), False, id="V30-two-revisions"),
        pytest.param(stateful_set(), True, id="V30-one-revision"),
        pytest.param(stateful_set(current=""), True, id="V30-no-current"),
        pytest.param(stateful_set(update=""), True, id="V30-no-update"),
        pytest.param(stateful_set(observed=1, generation=2), False, id="V30-not-observed"),
        pytest.param(stateful_set(ready=1), False, id="one-not-ready"),
        pytest.param(stateful_set(ready=3, updated=3), False, id="more-than-wanted"),
        pytest.param({"metadata": {}, "spec": {"replicas": 0}}, True, id="no-pods-wanted"),
    ],
)
def test_a_stateful_set_is_ready_when_every_pod_is_of_one_revision(workload: dict[str, Any], ready: bool) -> None:
    assert HANDLER.is_ready(workload) is ready


def test_v25_its_service_is_the_instance_s_whatever_the_user_wrote() -> None:
    written = role("prefill", 2, "StatefulSet")
    written["spec"]["serviceName"] = "mine"

    made = HANDLER.desired(view(infer_service("vllm-0", [written])), 1)

    assert made["spec"]["serviceName"] == "service-vllm-0-prefill-1"


LIVE = {
    "selector": {"matchLabels": {"a": "b"}},
    "serviceName": "s",
    "podManagementPolicy": "OrderedReady",
    "replicas": 1,
    "updateStrategy": {"type": "RollingUpdate"},
    "volumeClaimTemplates": [
        {"metadata": {"name": "data"}, "spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}}
    ],
}
CLAIM = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
WANTED = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "volumeClaimTemplates": [CLAIM]}


@pytest.mark.parametrize(
    "change, recreate",
    [
        ({}, False),
        ({"replicas": 5, "template": {"x": 1}, "updateStrategy": {"type": "OnDelete"}}, False),
        ({"volumeClaimTemplates": [{**CLAIM, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}]}, False),
        ({"selector": {"matchLabels": {"a": "c"}}}, True),
        ({"serviceName": "t"}, True),
        ({"podManagementPolicy": "Parallel"}, True),
        ({"volumeClaimTemplates": []}, True),
        ({"volumeClaimTemplates": [{**CLAIM, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}]}, True),
        ({"volumeClaimTemplates": [CLAIM, CLAIM]}, True),
    ],
)
def test_a_field_that_cannot_change_needs_a_new_stateful_set(change: dict[str, Any], recreate: bool) -> None:
    assert HANDLER.must_recreate({"spec": {**WANTED, **change}}, {"spec": LIVE}) is recreate


def test_leaving_pod_management_out_again_needs_a_new_stateful_set() -> None:
    assert HANDLER.must_recreate({"spec": WANTED}, {"spec": {**LIVE, "podManagementPolicy": "Parallel"}})
