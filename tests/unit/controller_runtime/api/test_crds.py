# SPDX-License-Identifier: Apache-2.0
"""What the rendered schemas say; that the API server accepts and enforces them is tested in the cluster tier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller_runtime.api.crds import all_crds

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in all_crds()}


def version(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = CRDS[kind]["spec"]["versions"][0]
    return found


def schema(kind: str, *path: str) -> Any:
    node = version(kind)["schema"]["openAPIV3Schema"]
    for name in path:
        node = node["items"] if name == "[]" else node["properties"][name]
    return node


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from nodes(value)


@pytest.mark.parametrize(
    "kind, plural, short",
    [("InferServiceSet", "inferservicesets", "iss"), ("InferService", "inferservices", "is"), ("InstanceSet", "instancesets", "ist")],
)
def test_each_kind_keeps_the_names_clients_use(kind: str, plural: str, short: str) -> None:
    spec = CRDS[kind]["spec"]

    assert CRDS[kind]["metadata"]["name"] == f"{plural}.mindcluster.huawei.com"
    assert (spec["names"]["plural"], spec["names"]["shortNames"], spec["scope"]) == (plural, [short], "Namespaced")
    assert version(kind)["name"] == "v1"


@pytest.mark.parametrize("kind", CRDS)
def test_every_kind_has_a_status_and_shows_ready_desired_and_age(kind: str) -> None:
    assert "status" in version(kind)["subresources"]
    shown = [column["name"] for column in version(kind)["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["Ready", "Desired", "Age"]


def test_sets_and_instance_sets_can_be_scaled() -> None:
    assert [kind for kind in CRDS if "scale" in version(kind)["subresources"]] == ["InferServiceSet", "InstanceSet"]
    assert version("InstanceSet")["subresources"]["scale"]["labelSelectorPath"] == ".status.labelSelector"


@pytest.mark.parametrize("kind", CRDS)
def test_schemas_are_structural(kind: str) -> None:
    found = list(nodes(version(kind)["schema"]))

    assert not [node for node in found if "$ref" in node or "anyOf" in node or "$defs" in node]
    assert not [node for node in found if node.get("type") == "null"]


def test_v3_an_absent_number_of_services_stays_absent() -> None:
    assert "default" not in schema("InferServiceSet", "spec", "replicas")


def test_v59_a_set_has_1_to_64_services() -> None:
    replicas = schema("InferServiceSet", "spec", "replicas")

    assert (replicas["minimum"], replicas["maximum"]) == (1, 64)


def test_v11_a_service_has_at_most_32_roles() -> None:
    assert schema("InferService", "spec", "roles")["maxItems"] == 32
    assert schema("InferServiceSet", "spec", "template", "roles")["maxItems"] == 32


def test_workload_specs_are_carried_as_they_are() -> None:
    spec = schema("InstanceSet", "spec", "spec")

    assert spec["x-kubernetes-preserve-unknown-fields"] is True
    assert "properties" not in spec


def test_a_role_reads_the_same_in_all_three_kinds() -> None:
    role = schema("InstanceSet", "spec")["properties"]

    assert schema("InferService", "spec", "roles", "[]")["properties"] == role
    assert schema("InferServiceSet", "spec", "template", "roles", "[]")["properties"] == role


@pytest.mark.parametrize("kind", ["InferService", "InstanceSet"])
def test_the_specs_the_operator_writes_have_one_owner(kind: str) -> None:
    assert schema(kind, "spec")["x-kubernetes-map-type"] == "atomic"


def test_a_caller_cannot_change_the_crds_of_the_next_one() -> None:
    all_crds()[0]["spec"]["versions"].clear()

    assert all_crds()[0]["spec"]["versions"]
