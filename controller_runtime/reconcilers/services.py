# SPDX-License-Identifier: Apache-2.0
"""The Services of a role: those its template declares, one each, and those its instances need, one per instance.

A StatefulSet always has a headless Service, because its pods' names resolve through it; it publishes pods that are not
ready, because ranks of one instance must find each other before any of them is. A Deployment has a Service per instance only
when the role declares none.
Seed: operator RFC, 9; node ports move by the place of the InferService in its set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller_runtime.api.instance_set import ServiceTemplate
from controller_runtime.api.labels import role_selector
from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import instance_service_name, role_service_name
from controller_runtime.reconcilers.role_view import RoleView

INSTANCE_PORT = 8080
HEADLESS = "None"


def role_services(view: RoleView) -> list[JsonObject]:
    """The declared Services of the role, in the order of the template."""
    return [_role_service(view, each) for each in view.instance_set.spec.services]


def instance_service(view: RoleView, index: int, *, headless: bool) -> JsonObject:
    """The Service of one instance. Its port is fixed; it leads to the first port the first container declares."""
    selector = view.index_labels(index)
    spec: JsonObject = {
        "ports": [{"name": "infer", "port": INSTANCE_PORT, "protocol": "TCP", "targetPort": _container_port(view)}],
        "selector": selector,
    }
    if headless:
        spec |= {"clusterIP": HEADLESS, "publishNotReadyAddresses": True}
    metadata = view.child_metadata(instance_service_name(view.service, view.role, index), selector, view.annotations)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def must_recreate(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether the Service turns headless or stops being it: the API server never lets clusterIP change."""
    is_headless, was_headless = (each["spec"].get("clusterIP") == HEADLESS for each in (desired, live))
    return is_headless is not was_headless


def _role_service(view: RoleView, template: ServiceTemplate) -> JsonObject:
    spec = dict(template.spec)
    if not spec.get("selector") and spec.get("type") != "ExternalName":
        spec["selector"] = role_selector(view.service, view.role)
    if "ports" in spec:
        is_node_port = spec.get("type") == "NodePort"
        spec["ports"] = [_port(port, view.place.offset if is_node_port else 0) for port in spec["ports"]]
    labels = {**view.labels, **template.metadata.labels, **view.index_labels("")}
    annotations = {**view.annotations, **template.metadata.annotations}
    metadata = view.child_metadata(role_service_name(template.name, view.service, view.role), labels, annotations)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _port(port: Mapping[str, Any], offset: int) -> JsonObject:
    """One port, its protocol spelled out (server-side apply needs the key) and its node port moved."""
    moved = {"protocol": "TCP", **port}
    if offset and moved.get("nodePort"):
        moved["nodePort"] += offset
    return moved


def _container_port(view: RoleView) -> int:
    pod = (view.instance_set.spec.spec or {}).get("template", {}).get("spec") or {}
    for container in (pod.get("containers") or ())[:1]:
        for port in container.get("ports") or ():
            if port.get("protocol", "TCP") == "TCP":
                return int(port["containerPort"])
    return INSTANCE_PORT
