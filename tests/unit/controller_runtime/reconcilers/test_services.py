# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.labels import INSTANCE_INDEX, SCHEDULING_STRATEGY, SERVICE_NAME, index_labels, role_selector
from controller_runtime.reconcilers.services import instance_service, must_recreate, role_services
from tests.support.infer import infer_service, node_port, pod_template, role, service, view


def services_of(name: str, services: list[dict[str, Any]], set_name: str | None = None) -> list[dict[str, Any]]:
    return role_services(view(infer_service(name, [role(services=services)], set_name=set_name)))


def test_v1_a_declared_service_is_named_after_itself_the_service_and_the_role() -> None:
    (made,) = services_of("infer-cluster-0", [service("inference", type="ClusterIP")])

    assert made["metadata"]["name"] == "inference-infer-cluster-0-worker"
    assert made["metadata"]["namespace"] == "ns"


def test_a_declared_service_belongs_to_no_instance() -> None:
    (made,) = services_of("infer-0", [service()])

    assert made["metadata"]["labels"] == {**index_labels("infer-0", "worker", ""), SCHEDULING_STRATEGY: "Parallel"}


def test_a_declared_service_without_selector_selects_its_role() -> None:
    (made,) = services_of("infer-0", [service()])

    assert made["spec"]["selector"] == role_selector("infer-0", "worker")
    assert INSTANCE_INDEX not in made["spec"]["selector"]


def test_a_selector_of_the_user_is_kept() -> None:
    (made,) = services_of("infer-0", [service(selector={"app": "mine"})])

    assert made["spec"]["selector"] == {"app": "mine"}


def test_an_external_name_selects_nothing() -> None:
    (made,) = services_of("infer-0", [{"name": "db", "spec": {"type": "ExternalName", "externalName": "db.example"}}])

    assert made["spec"] == {"type": "ExternalName", "externalName": "db.example"}


def test_metadata_of_a_declared_service_is_applied_but_cannot_replace_its_identity() -> None:
    metadata = {"labels": {"team": "a", SERVICE_NAME: "other"}, "annotations": {"note": "n"}}
    (made,) = services_of("infer-0", [{**service(), "metadata": metadata}])

    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["labels"][SERVICE_NAME] == "infer-0"
    assert made["metadata"]["annotations"] == {"note": "n"}


@pytest.mark.parametrize(
    "name, set_name, declared, expected",
    [
        pytest.param("s-0", "s", [30080], [30080], id="V21-first"),
        pytest.param("s-1", "s", [30080], [30081], id="V21-second"),
        pytest.param("s-2", "s", [30080], [30082], id="V21-third"),
        pytest.param("simple-infer", None, [30080], [30080], id="V22-alone"),
        pytest.param("simple-3", None, [30080], [30080], id="V22-alone-with-number"),
        pytest.param("s-2", "s", [30000, 30100], [30002, 30102], id="V23-every-port-by-the-index"),
    ],
)
def test_node_ports_move_by_the_place_in_the_set(name: str, set_name: str | None, declared: list[int], expected: list[int]) -> None:
    (made,) = services_of(name, [node_port("np", *declared)], set_name)

    assert [port["nodePort"] for port in made["spec"]["ports"]] == expected


def test_node_ports_of_a_load_balancer_do_not_move() -> None:
    balancer = service("lb", type="LoadBalancer", ports=[{"port": 80, "nodePort": 30080}])
    (made,) = services_of("s-2", [balancer], "s")

    assert made["spec"]["ports"] == [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]


def test_making_a_service_leaves_the_template_alone() -> None:
    parent = infer_service("s-2", [role(services=[node_port("np", 30080)])], set_name="s")

    role_services(view(parent))

    assert parent.spec.roles[0].services[0].spec["ports"] == [{"port": 8080, "nodePort": 30080}]


def test_v27_an_instance_has_a_service_that_selects_exactly_it() -> None:
    made = instance_service(view(infer_service("vllm-0", [role("prefill")])), 1, headless=False)

    identity = index_labels("vllm-0", "prefill", 1)
    assert made["metadata"]["name"] == "service-vllm-0-prefill-1"
    assert made["metadata"]["labels"] == identity
    assert made["spec"] == {"selector": identity, "ports": [{"name": "infer", "port": 8080, "protocol": "TCP", "targetPort": 8080}]}


def test_a_headless_service_shows_pods_before_they_are_ready() -> None:
    made = instance_service(view(infer_service()), 0, headless=True)

    assert (made["spec"]["clusterIP"], made["spec"]["publishNotReadyAddresses"]) == ("None", True)


def test_an_instance_s_service_leads_to_the_port_its_container_declares() -> None:
    ports = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 8000}]
    template = pod_template(None, None, {"name": "main", "ports": ports}, {"name": "side", "ports": [{"containerPort": 1}]})

    made = instance_service(view(infer_service("s-0", [role(spec={"template": template})])), 0, headless=False)

    assert made["spec"]["ports"][0]["port"] == 8080
    assert made["spec"]["ports"][0]["targetPort"] == 8000


def test_annotations_of_the_role_reach_its_services() -> None:
    parent = infer_service("s-0", [role(metadata={"annotations": {"note": "n"}}, services=[service()])])

    assert instance_service(view(parent), 0, headless=True)["metadata"]["annotations"] == {"note": "n"}
    assert role_services(view(parent))[0]["metadata"]["annotations"] == {"note": "n"}


@pytest.mark.parametrize(
    "desired, live, recreate",
    [("None", "10.0.0.1", True), (None, "None", True), ("None", "None", False), (None, "10.0.0.1", False)],
)
def test_only_turning_headless_or_back_needs_a_new_service(desired: str | None, live: str, recreate: bool) -> None:
    spec = {"clusterIP": desired} if desired else {}

    assert must_recreate({"spec": spec}, {"spec": {"clusterIP": live}}) is recreate
