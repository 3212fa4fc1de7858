# SPDX-License-Identifier: Apache-2.0
"""What an InstanceSet wants and what it has too much of, as pure functions."""

from __future__ import annotations

import pytest

from controller_runtime.api.labels import INSTANCE_INDEX
from controller_runtime.kube.kind import Object
from controller_runtime.reconcilers.instance_set import desired_services, surplus_services
from controller_runtime.reconcilers.workloads import handler_of
from tests.support.infer import infer_service, role, service, view


def named(name: str, index: str | None) -> Object:
    return {"metadata": {"name": name, "labels": {} if index is None else {INSTANCE_INDEX: index}}}


def names(objects: list[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


@pytest.mark.parametrize(
    "kind, declared, expected",
    [
        pytest.param("Deployment", [], ["service-s-0-r-0", "service-s-0-r-1"], id="V27-Deployment-alone"),
        pytest.param("Deployment", [service("a")], ["a-s-0-r"], id="V27-Deployment-with-services"),
        pytest.param("StatefulSet", [], ["service-s-0-r-0", "service-s-0-r-1"], id="V27-StatefulSet-alone"),
        pytest.param("StatefulSet", [service("a")], ["a-s-0-r", "service-s-0-r-0", "service-s-0-r-1"], id="V27-StatefulSet-both"),
    ],
)
def test_instances_have_services_where_their_kind_needs_them(kind: str, declared: list[Object], expected: list[str]) -> None:
    handler = handler_of("apps/v1", kind)
    assert handler is not None

    assert names(desired_services(view(infer_service("s-0", [role("r", 2, kind, services=declared)])), handler, range(2))) == expected


def test_v9_services_of_a_stateful_set_are_headless_and_those_of_a_deployment_are_not() -> None:
    for kind, cluster_ip in (("StatefulSet", "None"), ("Deployment", None)):
        handler = handler_of("apps/v1", kind)
        assert handler is not None
        (made,) = desired_services(view(infer_service("s-0", [role("r", 1, kind)])), handler, range(1))
        assert made["spec"].get("clusterIP") == cluster_ip


def test_services_that_are_no_longer_declared_are_surplus_and_those_of_kept_instances_are_not() -> None:
    present = [
        named("a-s-r", ""),
        named("b-s-r", ""),
        named("service-s-r-0", "0"),
        named("service-s-r-1", "1"),
        named("odd", "x"),
        named("no", None),
    ]

    assert names(surplus_services(present, {"a-s-r", "service-s-r-0"})) == ["service-s-r-1", "b-s-r"]
