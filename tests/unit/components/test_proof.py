# SPDX-License-Identifier: Apache-2.0
"""When a stack proves again that it serves."""

from __future__ import annotations

import pytest

from tests.support.declared_stack import declared, pod_templates, trial_stack
from tests.support.pulumi_mocks import Registered

ROOM: dict[str, object] = {
    "pools.prefill.node_names": None,
    "pools.decode.node_names": None,
    "pools.prefill.nodes": 8,
    "pools.decode.nodes": 8,
    "workload.prefill.npus_per_pod": 8,
    "workload.decode.npus_per_pod": 8,
}


def proof(changes: dict[str, object] | None = None) -> Registered:
    stack = declared(trial_stack(ROOM | (changes or {})))
    (job,) = [each for each in stack.of("kubernetes:batch/v1:Job") if each.metadata["name"].startswith("pd-proof")]
    return job


@pytest.mark.parametrize(
    "changes",
    [
        {"workload.decode.instances": 2},
        {"workload.prefill.instances": None, "workload.decode.instances": None, "workload.total_instances": 8},
        {"pki.revoked": ["etcd-controller#1"]},
        {"quota.pods": 60},
    ],
    ids=["scale", "let the decision scale", "revoke", "quota"],
)
def test_scaling_renewing_and_quotas_need_no_new_proof(changes: dict[str, object]) -> None:
    assert proof(changes).inputs == proof().inputs


@pytest.mark.parametrize(
    "changes",
    [{"workload.model_name": "other"}, {"controller.replicas": 2}, {"coordinator.ports.predict": 2025}, {"proof_timeout_s": 60}],
    ids=lambda changes: next(iter(changes)),
)
def test_whatever_else_changes_is_proved_by_a_job_of_another_name(changes: dict[str, object]) -> None:
    assert proof(changes).metadata["name"] != proof().metadata["name"]


def test_a_failed_proof_is_run_again_and_ends_in_time() -> None:
    job = proof({"proof_timeout_s": 120})
    (template,) = pod_templates(job)

    asked = {"pulumi.com/timeoutSeconds": "180", "pulumi.com/replaceUnready": "true"}
    assert job.metadata["annotations"].items() >= asked.items()
    assert (job.inputs["spec"]["activeDeadlineSeconds"], job.inputs["spec"]["backoffLimit"]) == (180, 0)
    assert "--wait-s=120" in template["spec"]["containers"][0]["args"]


def test_a_stack_that_asks_for_no_proof_gets_none() -> None:
    stack = declared(trial_stack({"proof_timeout_s": 0}))

    assert [each for each in stack.resources if "proof" in each.name and each.type != "kubernetes:networking.k8s.io/v1:NetworkPolicy"] == []
