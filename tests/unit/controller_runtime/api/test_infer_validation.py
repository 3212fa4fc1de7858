# SPDX-License-Identifier: Apache-2.0
"""Findings, one rule at a time. Numbers in ids are those of the operator's list of test vectors."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from controller_runtime.api.infer_service import InferServiceSpec
from controller_runtime.api.infer_service_set import InferServiceSetSpec
from controller_runtime.api.infer_validation import Capabilities, Findings, check_instance_set, check_service, check_set
from controller_runtime.api.instance_set import InstanceSetSpec
from controller_runtime.api.labels import GANG_SCHEDULE, SCHEDULING_STRATEGY
from tests.support.infer import node_port, pod_template, role, service

CAN = Capabilities()


def of_service(*roles: dict[str, Any], name: str = "infer-0", offset: int = 0, strategy: str = "") -> Findings:
    spec = InferServiceSpec.model_validate({"roles": list(roles), "schedulingStrategy": {"type": strategy}})
    return check_service(name, spec, offset, CAN)


def of_set(*roles: dict[str, Any], name: str = "infer", replicas: int | None = 1) -> Findings:
    return check_set(name, InferServiceSetSpec.model_validate({"replicas": replicas, "template": {"roles": list(roles)}}), CAN)


def only(findings: Findings, name: str = "worker") -> str:
    """The single message, which is about one role."""
    assert not findings.service
    assert list(findings.roles) == [name]
    (message,) = findings.roles[name]
    return message


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_shortest_role_is_valid(kind: str) -> None:
    assert of_service(role(kind=kind, pods=None)).messages == ()


def test_v60_a_kind_without_handler_blocks_its_role_only() -> None:
    findings = of_service(role("good"), role("bad", workload={"apiVersion": "apps/v1", "kind": "Job"}))

    message = only(findings, "bad")
    assert message.startswith("role bad: workload apps/v1 Job has no handler.")
    assert "apps/v1 Deployment, apps/v1 StatefulSet" in message


def test_v18_the_version_is_part_of_the_kind() -> None:
    assert "batch/v1 Deployment" in only(of_service(role(workload={"apiVersion": "batch/v1", "kind": "Deployment"})))


@pytest.mark.parametrize(
    "change, field",
    [
        pytest.param({"workload": None}, "workload", id="V60-no-workload"),
        pytest.param({"replicas": None}, "replicas", id="V61-no-replicas"),
        pytest.param({"spec": None}, "spec", id="V61-no-spec"),
        pytest.param({"spec": {}}, "spec", id="V18-empty-spec"),
        pytest.param({"spec": {"replicas": "x", "template": pod_template()}}, "spec.replicas", id="V18-text"),
        pytest.param({"spec": {"replicas": True, "template": pod_template()}}, "spec.replicas", id="V18-boolean"),
        pytest.param({"spec": {"replicas": -1, "template": pod_template()}}, "spec.replicas", id="V18-negative"),
        pytest.param({"spec": {"replicas": 1}}, "spec.template", id="V18-no-template"),
        pytest.param({"spec": {"selector": {}, "template": pod_template()}}, "spec.selector", id="V62-empty-selector"),
    ],
)
def test_a_missing_or_wrong_field_of_a_role_is_named(change: dict[str, Any], field: str) -> None:
    arguments: dict[str, Any] = {"name": "worker", **change}

    assert only(of_service(role(**arguments))).startswith(f"role worker: {field} is ")


def test_v16_no_instances_is_a_valid_number() -> None:
    assert of_service(role(replicas=0)).messages == ()


def test_v62_a_selector_must_match_the_template() -> None:
    spec = {"selector": {"matchLabels": {"app": "infer"}}, "template": pod_template({"app": "other"})}

    assert "spec.selector does not match" in only(of_service(role(spec=spec)))


@pytest.mark.parametrize("labels", [{"app": "infer"}, {"infer.huawei.com/inferservice-name": "infer-0"}])
def test_a_selector_may_use_the_template_s_labels_and_the_operator_s(labels: dict[str, str]) -> None:
    spec = {"selector": {"matchLabels": labels}, "template": pod_template({"app": "infer"})}

    assert of_service(role(spec=spec)).messages == ()


def test_v13_v63_a_duplicate_role_blocks_the_whole_service() -> None:
    assert of_service(role("a"), role("a")).service == ("role a: is there 2 times. Give each role its own name.",)


@pytest.mark.parametrize("name", ["", "Prefill", "-a", "a_b", "a-", "a.b", "a" * 64])
def test_v12_v14_role_names_that_are_no_dns_label_are_no_role(name: str) -> None:
    with pytest.raises(ValidationError):
        InstanceSetSpec.model_validate(role(name))


@pytest.mark.parametrize("name", ["prefill", "p1", "kv-pool", "1"])
def test_v14_role_names_that_are_dns_labels_are_valid(name: str) -> None:
    assert of_service(role(name)).messages == ()


def test_v64_a_role_name_too_long_for_its_objects_blocks_its_role_only() -> None:
    findings = of_service(role("good"), role("r" * 60), name="x-0")

    message = findings.roles["r" * 60][0]
    assert list(findings.roles) == ["r" * 60]
    assert "limit 63" in message


@pytest.mark.parametrize(
    "service_name, name, kind, services, valid",
    [
        ("s" * 40, "r" * 9, "StatefulSet", [], True),
        ("s" * 40, "r" * 10, "StatefulSet", [], False),
        ("s" * 44, "r" * 8, "Deployment", [], True),
        ("s" * 44, "r" * 9, "Deployment", [], False),
        ("s" * 50, "r" * 10, "Deployment", [service("a")], True),
        ("s" * 50, "r" * 10, "Deployment", [service("abcd")], False),
    ],
)
def test_names_end_where_the_shortest_limit_ends(
    service_name: str, name: str, kind: str, services: list[dict[str, Any]], valid: bool
) -> None:
    """StatefulSet 52 (revision label); Service 63, which for a Deployment with declared Services is only theirs."""
    findings = of_service(role(name, kind=kind, services=services), name=service_name)

    assert (not findings.messages) is valid


def test_the_last_index_counts_for_the_length_of_a_name() -> None:
    name = "s" * 44
    assert of_service(role("r" * 8, replicas=10), name=name).messages == ()
    assert "limit 63" in of_service(role("r" * 8, replicas=11), name=name).messages[0]


def test_a_set_is_checked_with_its_longest_name() -> None:
    assert of_set(role("r" * 8), name="s" * 42, replicas=10).messages == ()
    assert "limit 63" in of_set(role("r" * 8), name="s" * 42, replicas=11).messages[0]


def test_a_dot_in_a_service_name_is_refused_before_its_services_are() -> None:
    assert "has a dot" in of_service(role(), name="a.b").messages[0]


@pytest.mark.parametrize("priority", [0, 33, 40, 257])
def test_v15_v66_priorities_outside_1_to_32_are_refused_with_strategy_priority(priority: int) -> None:
    assert f"priority is {priority}, allowed 1-32" in only(of_service(role(priority=priority), strategy="Priority"))


@pytest.mark.parametrize("priority, strategy", [(1, "Priority"), (32, "Priority"), (0, "Parallel"), (99, "")])
def test_v15_other_priorities_are_accepted_or_ignored(priority: int, strategy: str) -> None:
    assert of_service(role(priority=priority), strategy=strategy).messages == ()


def test_v19_gang_scheduling_needs_pod_groups() -> None:
    gang = role(metadata={"labels": {GANG_SCHEDULE: "true"}})

    assert "PodGroup not supported" in only(of_service(gang))
    assert check_service("infer-0", InferServiceSpec.model_validate({"roles": [gang]}), 0, Capabilities(pod_groups=True)).messages == ()


@pytest.mark.parametrize("value", ["True", "1", "false", ""])
def test_v35_only_the_exact_word_asks_for_a_gang(value: str) -> None:
    assert of_service(role(metadata={"labels": {GANG_SCHEDULE: value}})).messages == ()


@pytest.mark.parametrize("ports", [[{"port": 80}], [{"port": 80, "nodePort": 0}], [{"port": 80, "nodePort": 30080}, {"port": 81}]])
def test_v20_v67_a_node_port_service_names_every_node_port(ports: list[dict[str, int]]) -> None:
    message = only(of_service(role(services=[service("np", type="NodePort", ports=ports)])))

    assert "nodePort of service np should config as non-zero" in message


@pytest.mark.parametrize("kind", [None, "ClusterIP", "LoadBalancer"])
def test_v20_other_services_need_no_node_port(kind: str | None) -> None:
    spec = {"type": kind} if kind else {}

    assert of_service(role(services=[service("s", **spec)])).messages == ()


def test_v24_a_node_port_that_moves_out_of_range_is_refused() -> None:
    roles = role(services=[node_port("np", 32767)])

    assert of_service(roles, offset=0).messages == ()
    assert "nodePort 32767 of service np becomes 32768, allowed 30000-32767" in only(of_service(roles, offset=1))
    assert "becomes 32768" in only(of_set(roles, replicas=2))


def test_a_site_may_have_another_node_port_range() -> None:
    spec = InferServiceSpec.model_validate({"roles": [role(services=[node_port("np", 40000)])]})

    assert check_service("s-0", spec, 0, CAN).messages
    assert check_service("s-0", spec, 0, Capabilities(node_ports=range(40000, 40001))).messages == ()


@pytest.mark.parametrize(
    "roles, replicas",
    [
        ([role("a", services=[node_port("x", 30080)]), role("b", services=[node_port("y", 30080)])], 1),
        ([role("a", services=[node_port("x", 30080), node_port("y", 30080)])], 1),
        ([role("a", services=[node_port("x", 30080, 30080)])], 1),
        ([role("a", services=[node_port("x", 30080, 30081)])], 2),
        ([role("a", services=[node_port("x", 30080)]), role("b", services=[node_port("y", 30082)])], 3),
    ],
)
def test_node_ports_that_overlap_inside_a_set_block_the_set(roles: list[dict[str, Any]], replicas: int) -> None:
    findings = of_set(*roles, replicas=replicas)

    assert len(findings.service) == 1
    assert "service x of role a, nodePort 3008" in findings.service[0]


def test_node_ports_far_enough_apart_do_not_overlap() -> None:
    roles = [role("a", services=[node_port("x", 30080)]), role("b", services=[node_port("y", 30082)])]

    assert of_set(*roles, replicas=2).messages == ()


def test_node_ports_of_different_protocols_do_not_overlap() -> None:
    tcp, udp = node_port("x", 30080), node_port("y", 30080)
    udp["spec"]["ports"][0]["protocol"] = "UDP"

    assert of_set(role(services=[tcp, udp])).messages == ()


@pytest.mark.parametrize("replicas", [0, -1, 65])
def test_v4_a_set_of_no_or_too_many_services_is_no_set(replicas: int) -> None:
    with pytest.raises(ValidationError):
        InferServiceSetSpec.model_validate({"replicas": replicas, "template": {}})


@pytest.mark.parametrize("replicas", [None, 1, 64])
def test_v4_a_set_of_1_to_64_services_is_valid(replicas: int | None) -> None:
    assert of_set(role(), replicas=replicas).messages == ()


def test_v11_33_roles_are_no_service() -> None:
    roles = [role(f"r{number}") for number in range(33)]

    assert of_service(*roles[:32]).messages == ()
    with pytest.raises(ValidationError):
        InferServiceSpec.model_validate({"roles": roles})


def test_v65_an_unknown_strategy_is_no_service() -> None:
    with pytest.raises(ValidationError):
        InferServiceSpec.model_validate({"schedulingStrategy": {"type": "Serial"}})


def test_v44_an_unknown_strategy_label_of_a_hand_written_instance_set_is_refused() -> None:
    (message,) = check_instance_set("s", InstanceSetSpec.model_validate(role()), {SCHEDULING_STRATEGY: "Foo"}, 0, CAN)

    assert f"label {SCHEDULING_STRATEGY} is Foo" in message


def test_v19_the_gang_label_of_a_hand_written_instance_set_counts() -> None:
    (message,) = check_instance_set("s", InstanceSetSpec.model_validate(role()), {GANG_SCHEDULE: "true"}, 0, CAN)

    assert "PodGroup not supported" in message


def test_every_problem_is_told_at_once() -> None:
    findings = of_service(role("a", replicas=None, workload=None), role("b", spec=None))

    assert len(findings.messages) == 3
