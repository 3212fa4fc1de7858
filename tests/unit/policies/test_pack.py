# SPDX-License-Identifier: Apache-2.0
"""Rules as policies of the engine: which resources, which levels, unknown values, configuration."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyCustomTimeouts,
    PolicyProviderResource,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from controller_runtime.errors import ConfigError
from controller_runtime.rules import ALL, CROSS, CrossRule, Rule
from policies.pack import as_object, policies

TODAY = date(2026, 3, 1)
PACK = policies(lambda: TODAY)
UNKNOWN = UNKNOWN_STRING_VALUE
RULES: tuple[Rule | CrossRule, ...] = (*ALL, *CROSS)
OPTIONS = PolicyResourceOptions(False, [], None, [], PolicyCustomTimeouts(0, 0, 0), [], None)
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def policy(rule_id: str, kind: type[Policy] = ResourceValidationPolicy) -> Any:
    return next(found for found in PACK if found.name.startswith(f"{rule_id}-") and isinstance(found, kind))


def deployment(*containers: dict[str, Any], **pod: Any) -> dict[str, Any]:
    spec = {"containers": list(containers), **pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "one", "namespace": "mindie"},
        "spec": {"template": {"spec": spec}},
    }


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "r/x:1", **fields}


def judge(rule_id: str, props: dict[str, Any], resource_type: str = DEPLOYMENT, config: dict[str, Any] | None = None) -> list[str]:
    messages: list[str] = []
    run(rule_id, props, messages, resource_type, config)
    return messages


def run(
    rule_id: str, props: dict[str, Any], messages: list[str], resource_type: str = DEPLOYMENT, config: dict[str, Any] | None = None
) -> None:
    provider = PolicyProviderResource("pulumi:providers:kubernetes", {}, "urn:p", "p")
    args = ResourceValidationArgs(resource_type, unknown_checking_proxy(props), "urn:one", "one", OPTIONS, provider, config)
    policy(rule_id).validate(args, lambda message, urn=None: messages.append(message))


def test_every_rule_is_a_mandatory_policy_with_its_words() -> None:
    assert [found.name for found in PACK] == [rule.slug for rule in RULES]
    for found, rule in zip(PACK, RULES, strict=True):
        assert found.enforcement_level is EnforcementLevel.MANDATORY
        assert rule.title in found.description
        assert rule.reason in found.description
        assert found.remediation_steps == f"{rule.remedy}."


def test_the_violation_reads_as_the_rule_says() -> None:
    assert judge("S24", deployment(container(), hostNetwork=True)) == [
        "Deployment mindie/one: spec.template.spec.hostNetwork is true, so the pod shares the node's network. "
        "Remove it and publish through a Service."
    ]


def test_resources_of_other_providers_are_left_alone() -> None:
    assert judge("S24", deployment(container(), hostNetwork=True), "tls:index/privateKey:PrivateKey") == []


def test_the_kind_comes_from_the_type_when_the_properties_lack_it() -> None:
    props = {"metadata": {"name": "c", "namespace": "n"}, "data": {"a.json": '{"tls_enable": false}'}}

    assert judge("S11", props, "kubernetes:core/v1:ConfigMap")[0].startswith("ConfigMap n/c: data[a.json].tls_enable")
    assert as_object("kubernetes:core/v1:ConfigMap", {})["apiVersion"] == "v1"
    assert as_object("kubernetes:mindcluster.huawei.com/v1:InferServiceSet", {})["apiVersion"] == "mindcluster.huawei.com/v1"


def test_whole_numbers_of_the_wire_are_integers() -> None:
    assert judge("S24", deployment(container(ports=[{"hostPort": 8080.0}])))[0].count("is 8080, a port of the node") == 1


def test_an_unknown_value_is_reported_the_engines_way() -> None:
    with pytest.raises(UnknownValueError) as caught:
        judge("S18", deployment(container(image=UNKNOWN)))

    assert caught.value.message == "string value at .spec.template.spec.containers.0.image can't be known during preview"


@pytest.mark.parametrize(
    "rule_id,first,second",
    [
        ("S1", {"securityContext": UNKNOWN}, {"securityContext": {"runAsNonRoot": False, "runAsUser": 1}}),
        ("S2", {"securityContext": {"privileged": UNKNOWN}}, {"securityContext": {"privileged": True}}),
        ("S3", {"securityContext": UNKNOWN}, {"securityContext": {"allowPrivilegeEscalation": True}}),
        (
            "S4",
            {"securityContext": {"capabilities": UNKNOWN}},
            {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}},
        ),
        ("S5", {"securityContext": {"seccompProfile": UNKNOWN}}, {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        ("S10", {"args": [UNKNOWN]}, {"args": ["--listen=0.0.0.0:80"]}),
        ("S11", {"env": [{"name": "A", "value": UNKNOWN}]}, {"env": [{"name": "USE_TLS", "value": "false"}]}),
        ("S12", {"volumeMounts": UNKNOWN}, {"volumeMounts": [{"name": "v", "subPath": "ca.key"}]}),
        ("S18", {"image": UNKNOWN}, {"image": "x"}),
        ("S21", {"env": [{"name": "A", "value": UNKNOWN}]}, {"env": [{"name": "PASSWORD", "value": "hunter2"}]}),
        ("S24", {"ports": UNKNOWN}, {"ports": [{"hostPort": 1}]}),
    ],
)
def test_what_is_certain_is_reported_before_what_is_unknown(rule_id: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    messages: list[str] = []
    with pytest.raises(UnknownValueError):
        run(rule_id, deployment(container("a", **first), container("b", **second)), messages)

    assert len(messages) == 1
    assert "containers[b]" in messages[0]


def test_unknown_values_that_no_rule_needs_disturb_none() -> None:
    props = deployment(
        container(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, resources=UNKNOWN),
        securityContext={"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        nodeName=UNKNOWN,
    )
    props["spec"]["replicas"] = UNKNOWN
    props["metadata"]["uid"] = UNKNOWN

    assert [judge(rule.id, props) for rule in ALL] == [[] for _ in ALL]


def test_a_key_in_a_secret_that_is_not_known_yet_is_left_to_the_update() -> None:
    props = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"ca.crt": UNKNOWN, "tls.key": UNKNOWN}}

    assert [judge(rule.id, props, "kubernetes:core/v1:Secret") for rule in ALL] == [[] for _ in ALL]
    assert len(judge("S12", {**props, "stringData": {"ca.key": UNKNOWN}}, "kubernetes:core/v1:Secret")) == 1


RECORD = {"kind": "Deployment", "namespace": "mindie", "name": "*", "reason": "driver", "expires": "2026-03-01"}


def test_configuration_exempts_until_its_last_day() -> None:
    bad = deployment(container(), hostPID=True)

    assert judge("S24", bad, config={"exemptions": [RECORD]}) == []
    assert "expired on 2026-02-01" in judge("S24", bad, config={"exemptions": [{**RECORD, "expires": "2026-02-01"}]})[0]


def test_a_bad_exemption_stops_the_operation_and_names_its_place() -> None:
    with pytest.raises(ConfigError, match=r"policy configuration S24-no-host-namespaces\.exemptions\[0\]\.expires: is 2026-02-30, no date"):
        judge("S24", deployment(container()), config={"exemptions": [{**RECORD, "expires": "2026-02-30"}]})


def resource(kind: str, props: dict[str, Any], urn: str) -> PolicyResource:
    return PolicyResource(f"kubernetes:core/v1:{kind}", unknown_checking_proxy(props), urn, "n", OPTIONS, None, None, [], {})


def test_a_rule_between_objects_reports_at_the_resource_that_breaks_it() -> None:
    config = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a.json": '{"x_tls_items": {"tls_key": "/k/tls.key"}}'}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [container(volumeMounts=[{"name": "c", "mountPath": "/k"}])],
            "volumes": [{"name": "c", "configMap": {"name": "c"}}],
        },
    }
    other = PolicyResource("pulumi:pulumi:Stack", {}, "urn:stack", "s", OPTIONS, None, None, [], {})
    found: list[tuple[str, str | None]] = []

    policy("S12", StackValidationPolicy).validate(
        StackValidationArgs([other, resource("ConfigMap", config, "urn:c"), resource("Pod", pod, "urn:p")]),
        lambda message, urn=None: found.append((message, urn)),
    )

    ((message, urn),) = found
    assert urn == "urn:p"
    assert "reads /k/tls.key from a volume of kind configMap" in message
