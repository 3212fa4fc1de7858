# SPDX-License-Identifier: Apache-2.0
"""What must exist for the wishes of users: a portrait of every object, derived from the rules alone.

A portrait holds owner, labels and the facts that matter of a kind. The same portraits are taken of live objects, so that
comparing two dictionaries finds what is missing, what is left over and what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from controller_runtime.api.labels import (
    FAULT_SCHEDULING,
    INSTANCE_INDEX,
    INSTANCE_SET_NAME,
    OPERATOR,
    SCALING_OWNED_BY,
    SCHEDULING_STRATEGY,
    SERVICE_INDEX,
    SERVICE_NAME,
    SET_NAME,
)
from tests.support.soak.wishes import CPU, SHARED, Role, Wish

Portrait: TypeAlias = dict[str, Any]
Portraits: TypeAlias = dict[str, Portrait]
"""By `Kind/name`."""

SERVICE_PORT = 8000
INSTANCE_PORT = 8080
NODE_PORT_SERVICE = "outside"


def expected(wishes: Iterable[Wish], scales: Mapping[str, int]) -> Portraits:
    """Every object that must exist. `scales`: instances that autoscalers chose, by name of the InstanceSet."""
    return {key: portrait for wish in wishes for key, portrait in _of_wish(wish, scales)}


def instances_of(service: str, role: Role, scales: Mapping[str, int]) -> int:
    """How many instances a role must have. An autoscaler's choice is bounded by its policy, and it never starts from none."""
    if role.bounds is None:
        return role.replicas
    least, most = role.bounds
    chosen = scales.get(f"{service}-{role.name}", least)
    return chosen and min(max(chosen, least), most)


def ready_status(noun: str, children: int, instances: int | None = None, **more: Any) -> Portrait:
    """A status that says all is well. `instances`: of all roles together, where they are not the children."""
    reason = {"InferService": "AllInferServicesReady", "InstanceSet": "AllInstanceSetsReady", "WorkLoad": "AllWorkLoadReady"}[noun]
    total = children if instances is None else instances
    return {
        "ready": ("True", reason, f"All {noun} replicas are ready"),
        "conditions": ["Ready"],
        "is of this generation": True,
        "replicas": (children, children),
        "rollout": {"newInstances": total, "oldInstances": 0, "step": total, "steps": total, "message": ""},
        **more,
    }


def _of_wish(wish: Wish, scales: Mapping[str, int]) -> Iterator[tuple[str, Portrait]]:
    totals = {service: sum(instances_of(service, role, scales) for role in wish.roles) for service in wish.services}
    if wish.copies is not None:
        status = ready_status("InferService", wish.copies, sum(totals.values()))
        yield f"InferServiceSet/{wish.name}", {"owner": None, "status": status}
    for index, service in enumerate(wish.services):
        owner = None if wish.copies is None else f"InferServiceSet/{wish.name}"
        labels = {} if wish.copies is None else {SET_NAME: wish.name, SERVICE_INDEX: str(index)}
        status = ready_status("InstanceSet", len(wish.roles), totals[service])
        roles = {role.name: (role.kind, role.image, role.pods) for role in wish.roles}
        yield f"InferService/{service}", {"owner": owner, "labels": labels, "status": status, "roles": roles}
        for role in wish.roles:
            yield from _of_role(wish, service, index, role, instances_of(service, role, scales))


def _of_role(wish: Wish, service: str, place: int, role: Role, instances: int) -> Iterator[tuple[str, Portrait]]:
    name = f"{service}-{role.name}"
    owner = f"InstanceSet/{name}"
    common = {**role.metadata_labels, SERVICE_NAME: service, INSTANCE_SET_NAME: role.name, SCHEDULING_STRATEGY: wish.strategy}
    selector = f"{SERVICE_NAME}={service},{INSTANCE_SET_NAME}={role.name}"
    scaler = f"{name}-scaler" if role.bounds else None
    status = ready_status("WorkLoad", instances, selector=selector, scaler=scaler)
    yield owner, {"owner": f"InferService/{service}", "labels": common, "status": status, "replicas": instances, "notes": []}
    if role.bounds:
        labels = {**common, SCALING_OWNED_BY: name, OPERATOR: "true"}
        yield f"HorizontalPodAutoscaler/{scaler}", {"owner": owner, "labels": labels, "target": owner, "bounds": role.bounds}
    for custom in role.services:
        yield _custom_service(custom, service, role, common)
    if role.node_port is not None:
        yield _custom_service(NODE_PORT_SERVICE, service, role, common, role.node_port + (place if wish.copies is not None else 0))
    for index in range(instances):
        yield from _of_instance(wish, service, place, role, index, common)


def _custom_service(custom: str, service: str, role: Role, common: Mapping[str, str], node_port: int | None = None) -> tuple[str, Portrait]:
    selector = {SERVICE_NAME: service, INSTANCE_SET_NAME: role.name, OPERATOR: "true"}
    labels = {**common, INSTANCE_INDEX: "", OPERATOR: "true"}
    kind = "ClusterIP" if node_port is None else "NodePort"
    portrait = {
        "owner": f"InstanceSet/{service}-{role.name}",
        "labels": labels,
        "selector": selector,
        "type": kind,
        "is headless": False,
        "ports": [(SERVICE_PORT, node_port)],
    }
    return f"Service/{custom}-{service}-{role.name}", portrait


def _of_instance(wish: Wish, service: str, place: int, role: Role, index: int, common: Mapping[str, str]) -> Iterator[tuple[str, Portrait]]:
    name, owner = f"{service}-{role.name}-{index}", f"InstanceSet/{service}-{role.name}"
    identity = {SERVICE_NAME: service, INSTANCE_SET_NAME: role.name, INSTANCE_INDEX: str(index), OPERATOR: "true"}
    group = f"pg-{name}" if role.gang else None
    is_stateful = role.kind == "StatefulSet"
    has_service = is_stateful or not (role.services or role.node_port is not None)
    labels = {**common, **identity} | ({FAULT_SCHEDULING: role.fault_scheduling} if role.fault_scheduling else {})
    environment = {"INSTANCE_INDEX": str(index), "INSTANCE_ROLE": role.name, **_place_of(wish, service, place)}
    pod = {"labels": {**role.pod_labels, **identity}, "image": role.image, "env": environment, "group": group}
    yield (
        f"{role.kind}/{name}",
        {
            "owner": owner,
            "labels": labels,
            "pods asked for": role.pods,
            "selector": SHARED if role.shares_selector else identity,
            "pod": pod,
            "service": f"service-{name}" if is_stateful else None,
            "marks": [],
            "live pods": [pod] * role.pods,
        },
    )
    if has_service:
        service_portrait = {
            "owner": owner,
            "labels": identity,
            "selector": identity,
            "type": "ClusterIP",
            "is headless": is_stateful,
            "ports": [(INSTANCE_PORT, None)],
        }
        yield f"Service/service-{name}", service_portrait
    if group:
        portrait = {"owner": owner, "labels": {**common, **identity}, "members": role.pods, "cpu": str(role.pods * CPU)}
        yield f"PodGroup/{group}", portrait


def _place_of(wish: Wish, service: str, place: int) -> dict[str, str]:
    return {} if wish.copies is None else {"INFER_SERVICE_INDEX": str(place), "INFER_SERVICE_NAME": service.rpartition("-")[0]}
