# SPDX-License-Identifier: Apache-2.0
"""The InferServiceSet of a stack: roles, pods, and a spec that the definitions accept."""

from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.infer_service_set import InferServiceSetSpec
from controller_runtime.api.infer_validation import Capabilities, check_set
from tests.support.declared_stack import declared, trial_stack
from tests.support.pulumi_mocks import Inventory

SET = "kubernetes:mindcluster.huawei.com/v1:InferServiceSet"
NPU = "huawei.com/Ascend910"


def roles(stack: Inventory) -> dict[str, dict[str, Any]]:
    return {role["name"]: role for role in stack.one(SET).inputs["spec"]["template"]["roles"]}


def test_instances_and_pods_per_instance_are_those_of_each_role() -> None:
    changes = {
        "workload.prefill.instances": 2,
        "workload.decode.pods_per_instance": 3,
        "pools.prefill.node_names": None,
        "pools.decode.node_names": None,
        "pools.prefill.nodes": 8,
        "pools.decode.nodes": 8,
    }
    found = roles(declared(trial_stack(changes)))

    assert {name: (role["replicas"], role["spec"]["replicas"]) for name, role in found.items()} == {"prefill": (2, 1), "decode": (1, 3)}
    assert {role["workload"]["kind"] for role in found.values()} == {"StatefulSet"}
    assert {role["spec"]["podManagementPolicy"] for role in found.values()} == {"Parallel"}


def test_each_role_runs_in_its_pool_with_its_npus(dev: Inventory) -> None:
    found = roles(dev)
    pods = {name: role["spec"]["template"]["spec"] for name, role in found.items()}

    assert pods["prefill"]["nodeSelector"] == {"hardware-type": "800I-A2-32G"}
    assert pods["decode"]["nodeSelector"] == {"hardware-type": "800I-A2-64G"}
    for spec in pods.values():
        server, node_manager = spec["containers"]
        assert server["resources"]["requests"][NPU] == server["resources"]["limits"][NPU] == "4"
        assert NPU not in node_manager["resources"]["requests"]


@pytest.mark.parametrize("heterogeneous, expected", [(True, [None, None]), (False, ["2", "1"])])
def test_pods_carry_their_role_when_the_hardware_does_not(heterogeneous: bool, expected: list[str | None]) -> None:
    found = roles(declared(trial_stack({"workload.heterogeneous": heterogeneous})))

    labels = [found[name]["spec"]["template"]["metadata"]["labels"] for name in ("prefill", "decode")]

    assert [each.get("grt-group/deploy-server") for each in labels] == expected
    assert {each["app"] for each in labels} == {"mindie-server"}


def test_the_set_is_awaited_until_the_operator_calls_it_ready() -> None:
    stack = declared(trial_stack({"workload.ready_timeout_s": 1200}))

    asked = {"pulumi.com/waitFor": "condition=Ready", "pulumi.com/timeoutSeconds": "1200"}
    assert stack.one(SET).metadata["annotations"].items() >= asked.items()


def test_a_server_may_start_as_long_as_the_stack_waits_for_it_and_at_least_as_long_as_the_manual_says() -> None:
    attempts = []
    for timeout_s in (60, 3600):
        template = roles(declared(trial_stack({"workload.ready_timeout_s": timeout_s})))["prefill"]["spec"]["template"]
        probe = template["spec"]["containers"][0]["startupProbe"]
        attempts.append(probe["periodSeconds"] * probe["failureThreshold"])

    assert attempts == [500, 3600]


def test_the_operator_finds_nothing_wrong_with_the_set(any_stack: Inventory) -> None:
    made = any_stack.one(SET)
    spec = InferServiceSetSpec.model_validate(made.inputs["spec"])

    assert check_set(made.metadata["name"], spec, Capabilities()).messages == ()
