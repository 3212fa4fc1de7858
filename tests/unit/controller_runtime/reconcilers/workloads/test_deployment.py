# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.reconcilers.workloads import handler_of
from controller_runtime.reconcilers.workloads.deployment import DeploymentHandler

HANDLER = DeploymentHandler()
BOTH = {"Available": "True", "Progressing": "True"}


def deployment(
    conditions: dict[str, str],
    *,
    replicas: int | None = 2,
    ready: int = 2,
    available: int = 2,
    updated: int = 2,
    total: int | None = None,
    observed: int = 1,
    generation: int = 1,
) -> dict[str, Any]:
    status = {"observedGeneration": observed, "readyReplicas": ready, "availableReplicas": available, "updatedReplicas": updated}
    status["replicas"] = updated if total is None else total
    return {
        "metadata": {"generation": generation},
        "spec": {} if replicas is None else {"replicas": replicas},
        "status": {**status, "conditions": [{"type": key, "status": value} for key, value in conditions.items()]},
    }


@pytest.mark.parametrize(
    "workload, ready",
    [
        pytest.param(deployment(BOTH), True, id="V31-both-conditions"),
        pytest.param(deployment({"Available": "True"}), False, id="V31-progressing-missing"),
        pytest.param(deployment({"Progressing": "True"}), False, id="V31-available-missing"),
        pytest.param(deployment({**BOTH, "Available": "False"}), False, id="not-available"),
        pytest.param(deployment(BOTH, available=1), False, id="V31-available-1"),
        pytest.param(deployment(BOTH, ready=3, available=3, updated=3), False, id="V31-more-than-wanted"),
        pytest.param(deployment(BOTH, updated=1), False, id="old-template"),
        pytest.param(deployment(BOTH, total=3), False, id="old-pod-in-place-of-a-new-one-that-does-not-start"),
        pytest.param(deployment(BOTH, observed=1, generation=2), False, id="not-observed"),
        pytest.param(deployment(BOTH, observed=2, generation=1), False, id="status-of-a-predecessor-of-that-name"),
        pytest.param(deployment(BOTH, replicas=None, ready=1, available=1, updated=1), True, id="absent-means-one"),
        pytest.param({"metadata": {"generation": 1}, "spec": {"replicas": 1}}, False, id="no-status"),
    ],
)
def test_a_deployment_is_ready_when_every_pod_is_and_it_says_so(workload: dict[str, Any], ready: bool) -> None:
    assert HANDLER.is_ready(workload) is ready


def test_only_another_selector_needs_a_new_deployment() -> None:
    live = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 1}}

    assert HANDLER.must_recreate({"spec": {"selector": {"matchLabels": {"a": "c"}}}}, live)
    assert not HANDLER.must_recreate({"spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 9}}, live)


def test_v18_kinds_without_handler_are_not_found() -> None:
    assert handler_of("apps/v1", "Deployment") is not None
    assert handler_of("batch/v1", "Job") is None
    assert handler_of("apps/v1beta1", "Deployment") is None
