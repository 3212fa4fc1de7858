# SPDX-License-Identifier: Apache-2.0
"""What holds for every object of a whole stack."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from pulumi_kubernetes import Provider

from components.pd_cluster import PdCluster, PdClusterArgs
from components.split import role_split
from controller_runtime.api.units import quantity
from controller_runtime.rules import ALL, CROSS, judge, judge_all
from policies.pack import as_object
from tests.support.declared_stack import IMAGES, containers, declared, pod_templates, stack_file
from tests.support.pulumi_mocks import Inventory, Registered, declare

INVENTORY = yaml.safe_load((Path(__file__).resolve().parents[2] / "data" / "inventory.yaml").read_text())
TODAY = date(2026, 1, 1)
MADE_BY_KUBERNETES = {"kube-node-lease"}
CLUSTER_WIDE = ("Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Node", "NodePatch")


def objects(stack: Inventory) -> list[Registered]:
    return [resource for resource in stack.resources if resource.is_object]


def kind(resource: Registered) -> str:
    return resource.type.rpartition(":")[2]


@pytest.mark.parametrize("stack_name", ["dev", "example-prod"])
def test_a_stack_declares_exactly_these_objects(stack_name: str, dev: Inventory, prod: Inventory) -> None:
    stack = dev if stack_name == "dev" else prod
    made: dict[str, list[str]] = {}
    names = {resource.urn: resource.name for resource in stack.resources}
    for resource in stack.resources:
        if not resource.type.startswith("tls:") and kind(resource) not in ("Secret", "Crl"):
            name = re.sub(r"-[0-9a-f]{8}$", "-HASH", resource.name)
            made.setdefault(names.get(resource.parent, "(stack)"), []).append(f"{resource.type} {name}")

    assert {parent: sorted(children) for parent, children in made.items()} == INVENTORY[stack_name]


@pytest.mark.parametrize("stack_name", ["dev", "example-prod"])
def test_a_first_preview_declares_the_same_objects_though_nothing_is_computed_yet(stack_name: str, dev: Inventory, prod: Inventory) -> None:
    known = dev if stack_name == "dev" else prod

    unknown = declared(stack_file(stack_name), preview=True)

    assert unknown.names() == known.names()


def test_two_runs_declare_the_same(dev: Inventory) -> None:
    args = PdClusterArgs(stack_file("dev"), IMAGES, role_split(stack_file("dev")).instances)
    again = declare(lambda: PdCluster("pd", args))

    assert {resource.urn: resource.inputs for resource in again.resources} == {resource.urn: resource.inputs for resource in dev.resources}


def test_everything_but_the_stack_itself_has_a_component_as_parent(any_stack: Inventory) -> None:
    components = {resource.urn for resource in any_stack.resources if resource.type.startswith("ascend-pd:index:")}

    orphans = [resource.name for resource in any_stack.resources if resource.parent not in components]

    assert orphans == ["pd"]


def test_every_object_gets_the_given_provider() -> None:
    config = stack_file("dev")

    def program() -> None:
        provider = Provider("cluster", context="lab")
        PdCluster(
            "pd",
            PdClusterArgs(config, IMAGES, role_split(config).instances),
            pulumi.ResourceOptions(providers={"kubernetes": provider}),
        )

    stack = declare(program)
    provider = stack.one("pulumi:providers:kubernetes")

    assert {resource.provider for resource in objects(stack)} == {f"{provider.urn}::{provider.name}-id"}


def test_names_of_resources_are_unique_and_short_enough_for_what_kubernetes_appends(any_stack: Inventory) -> None:
    logical = Counter((resource.type, resource.name) for resource in any_stack.resources)
    assert {name for name, count in logical.items() if count > 1} == set()
    named = Counter((kind(each), each.metadata.get("namespace"), each.metadata["name"]) for each in objects(any_stack) if each.metadata)
    assert {name for name, count in named.items() if count > 1} == set()
    for _, _, name in named:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name), name
        assert len(name) <= 63, name


def test_every_namespaced_object_names_its_namespace(any_stack: Inventory) -> None:
    namespaces = {resource.metadata["name"] for resource in any_stack.of("kubernetes:core/v1:Namespace")}
    assert len(namespaces) == 3
    for resource in objects(any_stack):
        expected = {None} if kind(resource) in CLUSTER_WIDE else namespaces | MADE_BY_KUBERNETES
        assert resource.metadata.get("namespace") in expected, resource.name


def test_selectors_find_the_pods_of_their_own_workload_and_of_no_other(any_stack: Inventory) -> None:
    pods = [(each, template["metadata"]["labels"]) for each in objects(any_stack) for template in pod_templates(each)]
    for resource in objects(any_stack):
        selector = _selector(resource)
        if selector is None:
            continue
        found = {
            each.name
            for each, labels in pods
            if each.metadata["namespace"] == resource.metadata["namespace"] and selector.items() <= labels.items()
        }
        assert len(found) == 1, f"{resource.name} selects {found}"
        if any(pod_templates(resource)):
            assert found == {resource.name}


def _selector(resource: Registered) -> dict[str, str] | None:
    spec: dict[str, Any] = resource.inputs.get("spec") or {}
    if kind(resource) == "Service":
        return dict(spec["selector"])
    if kind(resource) in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
        return dict(spec["selector"]["matchLabels"])
    return None


def test_keys_stand_in_secrets_and_nowhere_else(any_stack: Inventory) -> None:
    for resource in any_stack.resources:
        open_inputs = {name: value for name, value in resource.inputs.items() if name not in resource.secret}
        assert not _holds_key(open_inputs), f"{resource.name} shows a key"
        if resource.is_object:
            assert _holds_key(resource.inputs) == (kind(resource) == "Secret"), resource.name
    for resource in any_stack.of("kubernetes:core/v1:Secret"):
        assert set(resource.inputs["data"]) - {"crl.der"} == {"ca.crt", "tls.crt", "tls.key", "crl.pem"}
        assert "stringData" not in resource.inputs


def _holds_key(value: object) -> bool:
    """Whether a private key stands in it, as the mocks write them: plain, or in base64 as Secrets do."""
    text = json.dumps(value, default=str)
    return "key of pd-pki" in text or base64.b64encode(b"key of pd-pki").decode().rstrip("=")[:-1] in text


def test_every_mounted_secret_and_settings_file_exists_where_the_pod_runs(any_stack: Inventory) -> None:
    brought_by_the_site = {("mindie", "mindie-settings")}
    made = {(kind(each), each.metadata.get("namespace"), each.metadata.get("name")) for each in objects(any_stack)}
    for resource in objects(any_stack):
        namespace = resource.metadata.get("namespace")
        for template in pod_templates(resource):
            for volume in template["spec"]["volumes"]:
                if "secret" in volume:
                    assert ("Secret", namespace, volume["secret"]["secretName"]) in made, (resource.name, volume)
                if "configMap" in volume and not volume["configMap"].get("optional"):
                    name = volume["configMap"]["name"]
                    assert ("ConfigMap", namespace, name) in made or (namespace, name) in brought_by_the_site, (resource.name, volume)


def test_every_mount_has_a_volume_and_a_place_of_its_own(any_stack: Inventory) -> None:
    for resource in objects(any_stack):
        claims = [claim["metadata"]["name"] for claim in (resource.inputs.get("spec") or {}).get("volumeClaimTemplates", [])]
        for template in pod_templates(resource):
            volumes = {volume["name"] for volume in template["spec"]["volumes"]} | set(claims)
            for container in containers(template):
                paths = [mount["mountPath"] for mount in container["volumeMounts"]]
                assert len(set(paths)) == len(paths), resource.name
                assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, resource.name


def test_pods_wait_for_the_secrets_they_mount_and_servers_for_operator_and_definitions(any_stack: Inventory) -> None:
    secrets = {(each.metadata["namespace"], each.metadata["name"]): each.urn for each in any_stack.of("kubernetes:core/v1:Secret")}
    for resource in objects(any_stack):
        before = _before(any_stack, resource.urn)
        for template in pod_templates(resource):
            for volume in template["spec"]["volumes"]:
                if "secret" in volume:
                    assert secrets[resource.metadata["namespace"], volume["secret"]["secretName"]] in before, (
                        resource.name,
                        volume["name"],
                    )
    servers = _before(any_stack, any_stack.one("kubernetes:mindcluster.huawei.com/v1:InferServiceSet").urn)
    assert any_stack.one("kubernetes:apps/v1:Deployment", "infer-operator-manager").urn in servers
    assert {each.urn for each in any_stack.of("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")} <= servers
    assert {each.urn for each in any_stack.of("kubernetes:core/v1:NodePatch")} <= servers
    controller = _before(any_stack, any_stack.one("kubernetes:apps/v1:Deployment", "mindie-ms-controller").urn)
    assert {each.urn for each in any_stack.of("kubernetes:batch/v1:Job") if each.metadata["namespace"] == "ascend-pd-etcd"} <= controller


def _before(stack: Inventory, urn: str) -> set[str]:
    """Everything that a resource waits for, near and far; also what its parents wait for."""
    known = {resource.urn: resource for resource in stack.resources}
    found: set[str] = set()
    rest = [urn]
    while rest:
        resource = known.get(rest.pop())
        for dependency in (*resource.dependencies, resource.parent) if resource else ():
            if dependency not in found:
                found.add(dependency)
                rest.append(dependency)
    return found


def test_every_object_of_a_namespace_waits_for_the_namespace(any_stack: Inventory) -> None:
    namespaces = {each.metadata["name"]: each.urn for each in any_stack.of("kubernetes:core/v1:Namespace")}
    for resource in objects(any_stack):
        if resource.metadata.get("namespace") not in {None, *MADE_BY_KUBERNETES}:
            assert namespaces[resource.metadata["namespace"]] in _before(any_stack, resource.urn), resource.name


def test_no_security_rule_finds_anything(any_stack: Inventory) -> None:
    manifests = [as_object(resource.type, resource.inputs) for resource in objects(any_stack)]

    found = [str(violation) for rule in ALL for manifest in manifests for violation in judge(rule, manifest, today=TODAY)]
    found += [str(violation) for rule in CROSS for _, violation in judge_all(rule, manifests, today=TODAY)]

    assert found == []


def test_all_pods_fit_into_the_quota_of_their_namespace(any_stack: Inventory) -> None:
    used: dict[tuple[str, str], Decimal] = {}
    for resource in objects(any_stack):
        for template, pods in _pods(resource):
            for unit in ("cpu", "memory"):
                requests = sum(quantity(each["resources"]["requests"][unit]) for each in template["spec"]["containers"])
                place = (resource.metadata["namespace"], f"requests.{unit}")
                used[place] = used.get(place, Decimal(0)) + requests * pods
            used[resource.metadata["namespace"], "pods"] = used.get((resource.metadata["namespace"], "pods"), Decimal(0)) + pods
    quotas = {each.metadata["namespace"]: each.inputs["spec"]["hard"] for each in any_stack.of("kubernetes:core/v1:ResourceQuota")}
    for (namespace, unit), amount in used.items():
        assert amount <= quantity(quotas[namespace][unit]), (namespace, unit, amount)


def _pods(resource: Registered) -> list[tuple[dict[str, Any], int]]:
    spec: dict[str, Any] = resource.inputs.get("spec") or {}
    if kind(resource) == "InferServiceSet":
        roles = spec["template"]["roles"]
        return [(role["spec"]["template"], int(spec["replicas"] * role["replicas"] * role["spec"]["replicas"])) for role in roles]
    return [(template, int(spec.get("replicas", 1))) for template in pod_templates(resource)]
