# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.api.operator_rbac import cluster_rules, node_lease_rules, operator_namespace_rules

RULES = [*cluster_rules(), *operator_namespace_rules(), *node_lease_rules()]


def test_no_rule_has_a_wildcard() -> None:
    assert not [rule for rule in RULES for values in rule.values() if "*" in values]


def test_the_operator_may_not_touch_secrets_or_its_own_rights() -> None:
    granted = {resource for rule in RULES for resource in rule["resources"]}

    assert not granted & {"secrets", "roles", "clusterroles", "rolebindings", "clusterrolebindings", "serviceaccounts"}


@pytest.mark.parametrize(
    "resource, verbs",
    [
        ("pods", {"list", "watch", "delete"}),
        ("nodes", {"get", "list", "watch"}),
        ("replicasets", {"get"}),
        ("configmaps", {"list", "watch"}),
    ],
)
def test_what_faults_are_read_from_is_not_changed(resource: str, verbs: set[str]) -> None:
    assert {verb for rule in RULES if resource in rule["resources"] for verb in rule["verbs"]} == verbs


def test_settings_are_granted_by_name_in_one_namespace_only() -> None:
    assert not [rule for rule in cluster_rules() if "configmaps" in rule["resources"]]
    granted = [rule for rule in operator_namespace_rules() if "configmaps" in rule["resources"]]
    assert [rule["resourceNames"] for rule in granted] == [["infer-operator-config"]]


def test_what_users_write_is_read_only() -> None:
    verbs = {verb for rule in RULES if "inferservicesets" in rule["resources"] for verb in rule["verbs"]}

    assert verbs == {"list", "watch"}


def test_leases_are_granted_by_name_in_one_namespace_only() -> None:
    assert not [rule for rule in cluster_rules() if "leases" in rule["resources"]]
    changing = [rule for rule in operator_namespace_rules() if "update" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in changing] == [["infer-operator"]]


def test_of_the_cluster_s_definitions_only_the_one_it_follows_is_readable_and_none_is_writable() -> None:
    rules = [rule for rule in RULES if "customresourcedefinitions" in rule["resources"]]

    assert [(rule["resourceNames"], set(rule["verbs"])) for rule in rules] == [(["podgroups.scheduling.volcano.sh"], {"list", "watch"})]


def test_a_caller_cannot_change_the_rules_of_the_next_one() -> None:
    cluster_rules()[0]["verbs"].append("delete")

    assert cluster_rules()[0]["verbs"] == ["list", "watch"]
