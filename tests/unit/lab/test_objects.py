# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from lab.api_client import object_path
from lab.objects import base_objects
from lab.state import Lab


def _one(lab: Lab, kind: str) -> dict[str, Any]:
    (found,) = [each for each in base_objects(lab) if each["kind"] == kind]
    return found


def test_dns_is_reached_at_the_node_network_after_translation(lab: Lab) -> None:
    assert _one(lab, "Service")["spec"]["clusterIP"] == "10.96.4.10"
    assert _one(lab, "EndpointSlice")["endpoints"][0]["addresses"] == ["10.99.4.1"]
    assert {port["port"] for port in _one(lab, "EndpointSlice")["ports"]} == {26453}


def test_the_storage_class_is_the_default_and_waits_for_the_pods_node(lab: Lab) -> None:
    storage = _one(lab, "StorageClass")

    assert storage["metadata"]["name"] == "local"
    assert storage["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert storage["volumeBindingMode"] == "WaitForFirstConsumer"


def test_dns_gets_its_rights_last_so_that_its_readiness_tells_of_all(lab: Lab) -> None:
    assert [each["metadata"]["name"] for each in base_objects(lab)][-2:] == ["system:coredns", "system:coredns"]


def test_no_daemon_may_write(lab: Lab) -> None:
    verbs = {verb for each in base_objects(lab) if each["kind"] == "ClusterRole" for rule in each["rules"] for verb in rule["verbs"]}

    assert verbs == {"get", "list", "watch"}


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "path"),
    [
        ("v1", "Service", "kube-system", "/api/v1/namespaces/kube-system/services/x"),
        ("v1", "Node", None, "/api/v1/nodes/x"),
        ("storage.k8s.io/v1", "StorageClass", None, "/apis/storage.k8s.io/v1/storageclasses/x"),
    ],
)
def test_an_object_has_its_path(version: str, kind: str, namespace: str | None, path: str) -> None:
    metadata = {"name": "x"} | ({"namespace": namespace} if namespace else {})

    assert object_path({"apiVersion": version, "kind": kind, "metadata": metadata}) == path
