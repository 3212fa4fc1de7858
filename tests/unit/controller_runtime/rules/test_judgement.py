# SPDX-License-Identifier: Apache-2.0
"""What a user reads, and what an exemption hides for how long."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from controller_runtime.errors import ConfigError
from controller_runtime.rules import ALL, CROSS, CrossRule, Exemption, Rule, judge, judge_all, parse_exemptions
from controller_runtime.rules.listeners import no_all_zero_listener
from controller_runtime.rules.pod_security import no_host_namespaces, no_privileged_container

TODAY = date(2026, 3, 1)
PRIVILEGED: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "etcd", "namespace": "ascend-pd-etcd"},
    "spec": {"template": {"spec": {"containers": [{"name": "etcd", "image": "r/x:1", "securityContext": {"privileged": True}}]}}},
}


def texts(rule: Rule, obj: dict[str, Any], *exemptions: Exemption) -> list[str]:
    return [str(violation) for violation in judge(rule, obj, exemptions, today=TODAY)]


def exemption(**changes: Any) -> Exemption:
    fields: dict[str, Any] = {
        "rule": "S2",
        "kind": "StatefulSet",
        "namespace": "ascend-pd-*",
        "name": "etcd",
        "reason": "until the driver is fixed",
        "expires": TODAY,
    }
    return Exemption(**(fields | changes))


def test_a_violation_says_where_what_and_how_to_fix_it() -> None:
    assert texts(no_privileged_container, PRIVILEGED) == [
        "StatefulSet ascend-pd-etcd/etcd: spec.template.spec.containers[etcd].securityContext.privileged "
        "is true, so the container owns the node. Remove privileged; give a device through a device plugin instead."
    ]


def test_a_listener_is_reported_with_its_address() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ms-controller", "namespace": "mindie"},
        "data": {"ms_controller.json": '{"http_server": {"ip": "0.0.0.0"}}'},
    }

    assert texts(no_all_zero_listener, config) == [
        "ConfigMap mindie/ms-controller: data[ms_controller.json].http_server.ip "
        "names 0.0.0.0, which is every address the pod has. Listen on $(POD_IP) or on a loopback address."
    ]


def test_an_exemption_hides_its_finding_up_to_its_last_day() -> None:
    assert texts(no_privileged_container, PRIVILEGED, exemption()) == []


def test_an_expired_exemption_is_a_violation_again_and_says_so() -> None:
    (text,) = texts(no_privileged_container, PRIVILEGED, exemption(expires=date(2026, 2, 28)))

    assert text.endswith("device plugin instead. An exemption (until the driver is fixed) expired on 2026-02-28.")


def test_a_valid_exemption_beats_an_expired_one() -> None:
    assert texts(no_privileged_container, PRIVILEGED, exemption(expires=date(2025, 1, 1)), exemption()) == []


@pytest.mark.parametrize("changes", [{"rule": "S1"}, {"kind": "Deployment"}, {"namespace": "mindie"}, {"name": "etcd-2"}])
def test_an_exemption_covers_nothing_else(changes: dict[str, str]) -> None:
    assert len(texts(no_privileged_container, PRIVILEGED, exemption(**changes))) == 1


def test_an_object_without_namespace_or_name_is_still_named() -> None:
    bare = {"kind": "Pod", "metadata": {"generateName": "job-"}, "spec": {"hostPID": True, "containers": [{"name": "a"}]}}

    assert texts(no_host_namespaces, bare)[0].startswith("Pod job-: spec.hostPID")
    assert texts(no_host_namespaces, {"kind": "Pod", "spec": bare["spec"]})[0].startswith("Pod (unnamed): spec.hostPID")


def test_exemptions_cover_findings_between_objects() -> None:
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "n"},
        "data": {"a.json": '{"x_tls_items": {"tls_key": "/k/tls.key"}}'},
    }
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/k"}, {"name": "c", "mountPath": "/c"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
        },
    }
    recorded = exemption(rule="S12", kind="Pod", namespace="n", name="p")

    ((position, violation),) = judge_all(CROSS[0], [config, pod], today=TODAY)
    assert (position, str(violation)) == (
        1,
        "Pod n/p: spec.containers[a] reads /k/tls.key from a volume of kind emptyDir; "
        "data[a.json].x_tls_items.tls_key names it as a TLS file. "
        "Mount the identity's Secret at that directory.",
    )
    assert list(judge_all(CROSS[0], [config, pod], [recorded], today=TODAY)) == []


RECORD = {"kind": "Pod", "namespace": "*", "name": "x", "reason": "because", "expires": "2026-01-31"}


def test_exemptions_are_read_from_configuration() -> None:
    assert parse_exemptions("S2", [RECORD], "pack") == (Exemption("S2", "Pod", "*", "x", "because", date(2026, 1, 31)),)
    assert parse_exemptions("S2", None, "pack") == ()


@pytest.mark.parametrize(
    "raw,problems",
    [
        ([{**RECORD, "expires": "soon"}], ["pack[0].expires: is soon, no date. Write it as YYYY-MM-DD."]),
        ([{**RECORD, "reason": " "}], ["pack[0].reason: is missing or empty. Add it."]),
        (
            [{**RECORD, "until": "x"}, "x"],
            [
                "pack[0].until: is no known field. Remove it or correct its spelling.",
                "pack[1]: is no mapping. Give kind, namespace, name, reason, expires.",
            ],
        ),
        ({}, ["pack: is no list. Write a list of exemptions."]),
    ],
)
def test_a_bad_exemption_is_refused_with_every_problem(raw: object, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_exemptions("S2", raw, "pack")

    assert list(caught.value.problems) == problems


def test_rules_are_told_apart_and_say_all_a_user_needs() -> None:
    rules: list[Rule | CrossRule] = [*ALL, *CROSS]

    assert len({rule.slug for rule in rules}) == len(rules)
    assert [rule.id for rule in ALL] == sorted((rule.id for rule in ALL), key=lambda rule_id: int(rule_id[1:]))
    for rule in rules:
        assert rule.title
        assert rule.reason.endswith(".")
        assert rule.control
        assert not rule.remedy.endswith(".")
        assert rule.slug.startswith(f"{rule.id}-")
