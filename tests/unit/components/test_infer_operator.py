# SPDX-License-Identifier: Apache-2.0
"""The operator's rights, flags and listeners."""

from __future__ import annotations

import pytest

from components.infer_operator import InferOperator, InferOperatorArgs
from controller_runtime.api.operator_rbac import CONFIG_NAME, LEASE_NAME
from controller_runtime.api.pki import identities
from controller_runtime.api.stack import OperatorSpec
from tests.support.declared_stack import pod_templates, trial_stack
from tests.support.pulumi_mocks import Inventory, declare

RBAC = "kubernetes:rbac.authorization.k8s.io/v1"
METRICS = next(each for each in identities(trial_stack().pki_names()) if each.name == "infer-operator-metrics")


def operator(*, metrics: bool = True, preview: bool = False, **spec: object) -> Inventory:
    args = InferOperatorArgs(OperatorSpec.model_validate(spec), "mindx-dl", "registry.example/runtime:1", METRICS if metrics else None)
    return declare(lambda: InferOperator("op", args), preview=preview)


@pytest.mark.parametrize("preview", [False, True])
def test_the_operator_is_an_account_its_rights_its_settings_and_a_deployment(preview: bool) -> None:
    assert operator(preview=preview).names() == sorted(
        [
            ("ascend-pd:index:InferOperator", "op"),
            ("kubernetes:core/v1:ServiceAccount", "op-infer-operator-manager"),
            (f"{RBAC}:ClusterRole", "op-infer-operator-manager-role"),
            (f"{RBAC}:ClusterRoleBinding", "op-infer-operator-manager-binding"),
            (f"{RBAC}:Role", "op-mindx-dl-infer-operator-manager-role"),
            (f"{RBAC}:RoleBinding", "op-mindx-dl-infer-operator-manager-binding"),
            (f"{RBAC}:Role", "op-kube-node-lease-infer-operator-manager-role"),
            (f"{RBAC}:RoleBinding", "op-kube-node-lease-infer-operator-manager-binding"),
            ("kubernetes:core/v1:ConfigMap", "op-config"),
            ("kubernetes:apps/v1:Deployment", "op-deployment"),
        ]
    )


def test_rights_are_bound_to_the_account_that_the_pod_uses() -> None:
    stack = operator()
    (template,) = pod_templates(stack.one("kubernetes:apps/v1:Deployment"))
    account = {"kind": "ServiceAccount", "name": template["spec"]["serviceAccountName"], "namespace": "mindx-dl"}

    bindings = [each for kind in ("ClusterRoleBinding", "RoleBinding") for each in stack.of(f"{RBAC}:{kind}")]
    assert len(bindings) == 3
    for binding in bindings:
        assert binding.inputs["subjects"] == [account]
        roles = stack.of(f"{RBAC}:{binding.inputs['roleRef']['kind']}")
        (role,) = [each for each in roles if each.metadata.get("namespace") == binding.metadata.get("namespace")]
        assert role.metadata["name"] == binding.inputs["roleRef"]["name"]


def test_leases_and_settings_are_granted_by_namespace() -> None:
    stack = operator()
    cluster_wide = stack.one(f"{RBAC}:ClusterRole").inputs["rules"]
    rules = {role.metadata["namespace"]: role.inputs["rules"] for role in stack.of(f"{RBAC}:Role")}

    assert not [rule for rule in cluster_wide if {"leases", "configmaps"} & set(rule["resources"])]
    assert [rule.get("resourceNames") for rule in rules["mindx-dl"]] == [None, [LEASE_NAME], [CONFIG_NAME]]
    assert [rule["verbs"] for rule in rules["kube-node-lease"]] == [["get"]]


def test_fault_handling_is_on() -> None:
    settings = operator().one("kubernetes:core/v1:ConfigMap")

    assert settings.metadata["name"] == CONFIG_NAME
    assert settings.inputs["data"] == {"fault_handling": "true"}


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
