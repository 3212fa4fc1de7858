# SPDX-License-Identifier: Apache-2.0
"""The operator's rights, flags and listeners."""

from __future__ import annotations

import pytest

from components.infer_operator import InferOperator, InferOperatorArgs
from controller_runtime.api.operator_rbac import LEASE_NAME
from controller_runtime.api.pki import identities
from controller_runtime.api.stack import OperatorSpec
from tests.support.declared_stack import pod_templates, trial_stack
from tests.support.pulumi_mocks import Inventory, declare

METRICS = next(each for each in identities(trial_stack().pki_names()) if each.name == "infer-operator-metrics")


def operator(*, metrics: bool = True, preview: bool = False, **spec: object) -> Inventory:
    args = InferOperatorArgs(OperatorSpec.model_validate(spec), "mindx-dl", "registry.example/runtime:1", METRICS if metrics else None)
    return declare(lambda: InferOperator("op", args), preview=preview)


@pytest.mark.parametrize("preview", [False, True])
def test_the_operator_is_an_account_its_rights_its_settings_and_a_deployment(preview: bool) -> None:
    rbac = "kubernetes:rbac.authorization.k8s.io/v1"
    assert operator(preview=preview).names() == sorted(
        [
            ("ascend-pd:index:InferOperator", "op"),
            ("kubernetes:core/v1:ServiceAccount", "op-infer-operator-manager"),
            (f"{rbac}:ClusterRole", "op-infer-operator-manager-role"),
            (f"{rbac}:ClusterRoleBinding", "op-infer-operator-manager-binding"),
            (f"{rbac}:Role", "op-mindx-dl-infer-operator-manager-lease-role"),
            (f"{rbac}:RoleBinding", "op-mindx-dl-infer-operator-manager-lease-binding"),
            ("kubernetes:core/v1:ConfigMap", "op-config"),
            ("kubernetes:apps/v1:Deployment", "op-deployment"),
        ]
    )


def test_rights_are_bound_to_the_account_that_the_pod_uses() -> None:
    stack = operator()
    (template,) = pod_templates(stack.one("kubernetes:apps/v1:Deployment"))
    account = {"kind": "ServiceAccount", "name": template["spec"]["serviceAccountName"], "namespace": "mindx-dl"}

    for kind in ("ClusterRoleBinding", "RoleBinding"):
        binding = stack.one(f"kubernetes:rbac.authorization.k8s.io/v1:{kind}").inputs
        assert binding["subjects"] == [account]
        role = stack.one(f"kubernetes:rbac.authorization.k8s.io/v1:{binding['roleRef']['kind']}")
        assert role.metadata["name"] == binding["roleRef"]["name"]


def test_leases_are_for_the_operators_namespace_only() -> None:
    stack = operator()
    cluster_wide = stack.one("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole").inputs["rules"]
    local = stack.one("kubernetes:rbac.authorization.k8s.io/v1:Role")

    assert not [rule for rule in cluster_wide if "leases" in rule["resources"]]
    assert local.metadata["namespace"] == "mindx-dl"
    assert [rule.get("resourceNames") for rule in local.inputs["rules"]] == [None, [LEASE_NAME]]


def test_metrics_are_served_over_mutual_tls_or_not_at_all() -> None:
    (with_tls,) = pod_templates(operator().one("kubernetes:apps/v1:Deployment"))
    (without,) = pod_templates(operator(metrics=False).one("kubernetes:apps/v1:Deployment"))
    served, silent = with_tls["spec"]["containers"][0], without["spec"]["containers"][0]

    assert "--metrics-tls-dir=/mnt/tls/infer-operator-metrics" in served["args"]
    assert [port["name"] for port in served["ports"]] == ["health", "metrics"]
    assert not [argument for argument in silent["args"] if "metrics" in argument]
    assert [port["name"] for port in silent["ports"]] == ["health"]
    assert without["spec"]["volumes"] == []


def test_listeners_are_on_the_address_of_the_pod() -> None:
    (template,) = pod_templates(operator().one("kubernetes:apps/v1:Deployment"))
    addresses = [argument for argument in template["spec"]["containers"][0]["args"] if "-address=" in argument]

    assert len(addresses) == 2
    assert all("=$(POD_IP):" in address for address in addresses)


def test_replicas_and_log_level_are_those_of_the_configuration() -> None:
    deployment = operator(replicas=2, log_level=-1).one("kubernetes:apps/v1:Deployment")
    (template,) = pod_templates(deployment)

    assert deployment.inputs["spec"]["replicas"] == 2
    assert "--logLevel=-1" in template["spec"]["containers"][0]["args"]
