# SPDX-License-Identifier: Apache-2.0
"""What a set wants, as a pure function; the reconciler itself runs against a real API server in the cluster tier."""

from __future__ import annotations

import pytest

from controller_runtime.reconcilers.infer_service_set import desired_infer_services
from tests.support.infer import infer_service_set, role


def test_v1_services_are_numbered_from_zero() -> None:
    made = desired_infer_services(infer_service_set("infer-cluster", replicas=3))

    assert [each["metadata"]["name"] for each in made] == ["infer-cluster-0", "infer-cluster-1", "infer-cluster-2"]


def test_v2_a_service_carries_its_set_and_its_place_and_one_controller() -> None:
    (made,) = desired_infer_services(infer_service_set("infer-cluster"))

    assert made["metadata"]["labels"] == {
        "infer.huawei.com/inferserviceset-name": "infer-cluster",
        "infer.huawei.com/inferservice-index": "0",
    }
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "mindcluster.huawei.com/v1",
            "kind": "InferServiceSet",
            "name": "infer-cluster",
            "uid": "uid-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@pytest.mark.parametrize("replicas, count", [pytest.param(None, 1, id="V3"), (1, 1), pytest.param(64, 64, id="V4")])
def test_an_absent_number_means_one_service(replicas: int | None, count: int) -> None:
    assert len(desired_infer_services(infer_service_set(replicas=replicas))) == count


def test_v8_the_template_is_handed_down_as_it_is_written() -> None:
    roles = [role("a", spec={"template": {"spec": {"containers": [], "custom": {"x": None}}}}, metadata={"labels": {}}), role("b", 0)]
    (made,) = desired_infer_services(infer_service_set("s", roles, schedulingStrategy={"type": "Parallel"}))

    assert made["spec"] == {"roles": roles, "schedulingStrategy": {"type": "Parallel"}}
