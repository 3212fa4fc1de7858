# SPDX-License-Identifier: Apache-2.0
"""Builders of InferServiceSets, InferServices and InstanceSets, and of the pod templates in them."""

from __future__ import annotations

from typing import Any

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.infer_service_set import InferServiceSet
from controller_runtime.api.instance_set import InstanceSet, InstanceSetSpec
from controller_runtime.api.labels import SERVICE_INDEX, SET_NAME
from controller_runtime.kube.kind import Object
from controller_runtime.reconcilers.desired_instance_set import desired_instance_set
from controller_runtime.reconcilers.role_view import RoleView

API_VERSION = "mindcluster.huawei.com/v1"


def pod_template(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, *containers: Object) -> Object:
    """A pod template; one container `infer` unless others are given."""
    metadata: Object = {}
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"containers": list(containers) or [{"name": "infer", "image": "example/none:1"}]}}


def role(name: str = "worker", replicas: int | None = 1, kind: str = "Deployment", pods: int | None = 1, **more: Any) -> Object:
    """One role without selector; `pods` None leaves pods per instance out. `more` overrides fields, None removes them."""
    spec: Object = {"template": pod_template()}
    if pods is not None:
        spec["replicas"] = pods
    made = {"name": name, "replicas": replicas, "workload": {"apiVersion": "apps/v1", "kind": kind}, "spec": spec, **more}
    return {key: value for key, value in made.items() if value is not None}


def service(name: str = "inference", **spec: Any) -> Object:
    """A Service of a role."""
    return {"name": name, "spec": {"ports": [{"port": 8080, "protocol": "TCP"}], **spec}}


def node_port(name: str, *ports: int) -> Object:
    """A NodePort Service of a role with these node ports, on 8080 and up. Several ports have names, as they must."""
    made: list[Object] = [{"port": 8080 + place, "nodePort": port} for place, port in enumerate(ports)]
    if len(ports) > 1:
        made = [{"name": f"p{place}", **port} for place, port in enumerate(made)]
    return service(name, type="NodePort", ports=made)


def set_object(
    name: str = "infer", roles: list[Object] | None = None, replicas: int | None = 1, namespace: str = "ns", **template: Any
) -> Object:
    """An InferServiceSet as a user writes it."""
    spec: Object = {"template": {"roles": [role()] if roles is None else roles, **template}}
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "InferServiceSet", "metadata": metadata, "spec": spec}


def service_object(name: str = "infer-0", roles: list[Object] | None = None, namespace: str = "ns", **spec: Any) -> Object:
    """An InferService as a user writes it: it stands alone."""
    metadata: Object = {"name": name, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": "InferService",
        "metadata": metadata,
        "spec": {"roles": [role()] if roles is None else roles, **spec},
    }


def instance_set_object(name: str, spec: Object, labels: dict[str, str] | None = None, namespace: str = "ns") -> Object:
    """An InstanceSet as a user writes it."""
    metadata: Object = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": API_VERSION, "kind": "InstanceSet", "metadata": metadata, "spec": spec}


def stored(obj: Object, uid: str = "uid-1") -> Object:
    """The same as the API server has it."""
    return {**obj, "metadata": {"generation": 1, **obj["metadata"], "uid": uid}}


def infer_service_set(name: str = "infer", roles: list[Object] | None = None, replicas: int | None = 1, **template: Any) -> InferServiceSet:
    """A stored InferServiceSet, parsed."""
    return InferServiceSet.model_validate(stored(set_object(name, roles, replicas, **template)))


def infer_service(name: str = "infer-0", roles: list[Object] | None = None, *, set_name: str | None = None, **spec: Any) -> InferService:
    """A stored InferService, parsed. With `set_name` it is one of that set, its index at the end of its name."""
    obj = stored(service_object(name, roles, **spec))
    if set_name is not None:
        obj["metadata"]["labels"] = {SET_NAME: set_name, SERVICE_INDEX: name.rpartition("-")[2]}
    return InferService.model_validate(obj)


def view(parent: InferService, name: str | None = None) -> RoleView:
    """One role of an InferService as its children see it; the first role by default."""
    chosen: InstanceSetSpec = next(each for each in parent.spec.roles if name in (None, each.name))
    instance_set = InstanceSet.model_validate(stored(desired_instance_set(parent, chosen), "uid-instance-set"))
    return RoleView.of(instance_set, parent.metadata.labels)
