# SPDX-License-Identifier: Apache-2.0
"""What exists in a namespace, as portraits, and what is left there that nobody owns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controller_runtime.api.labels import (
    APPLIED_HASH,
    DRAIN_REQUESTED,
    DRAINED,
    FAULT_RECORD,
    POD_GROUP_NAME,
    POD_STATUS,
    REVISION,
    ROLLOUT_WAITS_FOR,
)
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.kind import (
    CONFIG_MAP,
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    REPLICA_SET,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Object,
    controller_owner_of,
    is_deleting,
    name_of,
    uid_of,
)
from tests.support.soak.expected import Portrait, Portraits

OURS = (INFER_SERVICE_SET, INFER_SERVICE, INSTANCE_SET, DEPLOYMENT, STATEFUL_SET, SERVICE, POD_GROUP, HORIZONTAL_POD_AUTOSCALER)
"""Kinds of which every object must be expected."""
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
BELOW = (REPLICA_SET, CONTROLLER_REVISION, POD, ENDPOINT_SLICE)
"""Kinds that others make for ours: each must have an owner that exists."""
NEVER_MADE = (SECRET, PERSISTENT_VOLUME_CLAIM)
CLUSTER_MADE = "kube-root-ca.crt"


class Snapshot:
    """Everything in a namespace at about one time."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._objects = list(objects)
        self._by_uid = {uid_of(each): each for each in self._objects}

    @classmethod
    async def take(cls, client: KubeClient, namespace: str) -> Snapshot:
        """List every kind that a service can leave behind."""
        kinds = (*OURS, *BELOW, *NEVER_MADE, CONFIG_MAP)
        return cls([each for kind in kinds for each in (await client.list(kind, namespace))[0]])

    @property
    def scales(self) -> dict[str, int]:
        """Instances asked for, by name of the InstanceSet."""
        return {name_of(each): each["spec"].get("replicas", 0) for each in self.of(INSTANCE_SET)}

    def of(self, kind: Kind) -> list[Object]:
        """The objects of one kind, sorted by name."""
        return sorted((each for each in self._objects if each["kind"] == kind.kind), key=name_of)

    def portraits(self) -> Portraits:
        """A portrait of each object that must be expected."""
        return {_key(each): self._portrait(each) for kind in OURS for each in self.of(kind)}

    def leaked(self) -> list[str]:
        """Objects that nobody owns any more, or that nobody should have made."""
        lost = [each for kind in BELOW for each in self.of(kind) if not self._has_owner(each)]
        strange = [each for kind in (*NEVER_MADE, CONFIG_MAP) for each in self.of(kind) if name_of(each) != CLUSTER_MADE]
        return sorted(_key(each) for each in [*lost, *strange])

    def mixed_revisions(self) -> list[str]:
        """InstanceSets whose workloads carry different revisions, or another one than their status tells."""
        found = []
        for owner in self.of(INSTANCE_SET):
            told = owner.get("status", {}).get("rollout", {}).get("revision")
            workloads = (each for each in self._owned(uid_of(owner)) if each["kind"] in (DEPLOYMENT.kind, STATEFUL_SET.kind))
            marks = {_annotations(each).get(REVISION) for each in workloads}
            if marks - {told}:
                found.append(f"{_key(owner)} tells {told}, its workloads {sorted(map(str, marks))}")
        return found

    def _has_owner(self, obj: Object) -> bool:
        reference = controller_owner_of(obj)
        return reference is not None and reference["uid"] in self._by_uid

    def _owned(self, uid: str) -> list[Object]:
        return [each for each in self._objects if (controller_owner_of(each) or {}).get("uid") == uid]

    def _portrait(self, obj: Object) -> Portrait:
        reference = controller_owner_of(obj)
        portrait: Portrait = {"owner": None if reference is None else self._owner(reference)}
        if obj["kind"] != INFER_SERVICE_SET.kind:
            portrait["labels"] = obj["metadata"].get("labels", {})
        if is_deleting(obj):
            portrait["is deleting"] = True
        return portrait | self._facts(obj)

    def _owner(self, reference: Mapping[str, Any]) -> str:
        owner = self._by_uid.get(reference["uid"])
        return f"{reference['kind']}/{reference['name']}" if owner is not None else f"lost {reference['kind']}/{reference['name']}"

    def _facts(self, obj: Object) -> Portrait:
        match obj["kind"]:
            case "Deployment":
                sets = [each for each in self._owned(uid_of(obj)) if each["kind"] == REPLICA_SET.kind]
                return _workload(obj, [pod for each in sets for pod in self._owned(uid_of(each))])
            case "StatefulSet":
                return _workload(obj, [each for each in self._owned(uid_of(obj)) if each["kind"] == POD.kind])
            case kind:
                return FACTS[kind](obj)


def _of_set(obj: Object) -> Portrait:
    return {"status": _status(obj)}


def _of_service(obj: Object) -> Portrait:
    roles = {each["name"]: (each["workload"]["kind"], _image(each["spec"]), each["spec"]["replicas"]) for each in obj["spec"]["roles"]}
    return {"status": _status(obj), "roles": roles}


def _of_instance_set(obj: Object) -> Portrait:
    told = obj.get("status", {})
    scaling = told.get("scalingResourceStatus")
    scaler = scaling.get("name") if scaling and scaling.get("ready") else scaling
    status = {**_status(obj), "selector": told.get("labelSelector"), "scaler": scaler}
    strange = _annotations(obj).keys() - {APPLIED_HASH, FAULT_RECORD}
    return {"status": status, "replicas": obj["spec"].get("replicas"), "notes": sorted(strange)}


def _of_network_service(obj: Object) -> Portrait:
    spec = obj["spec"]
    ports = [(each["port"], each.get("nodePort")) for each in spec["ports"]]
    return {"selector": spec.get("selector"), "type": spec["type"], "is headless": spec["clusterIP"] == "None", "ports": ports}


def _of_pod_group(obj: Object) -> Portrait:
    spec = obj["spec"]
    return {"members": spec["minMember"], "cpu": spec.get("minResources", {}).get("cpu")}


def _of_autoscaler(obj: Object) -> Portrait:
    spec = obj["spec"]
    target = f"{spec['scaleTargetRef']['kind']}/{spec['scaleTargetRef']['name']}"
    return {"target": target, "bounds": (spec["minReplicas"], spec["maxReplicas"])}


FACTS: dict[str, Callable[[Object], Portrait]] = {
    INFER_SERVICE_SET.kind: _of_set,
    INFER_SERVICE.kind: _of_service,
    INSTANCE_SET.kind: _of_instance_set,
    SERVICE.kind: _of_network_service,
    POD_GROUP.kind: _of_pod_group,
    HORIZONTAL_POD_AUTOSCALER.kind: _of_autoscaler,
}


def _status(obj: Object) -> Portrait:
    status = obj.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    ready, rollout = conditions.get("Ready", {}), status.get("rollout", {})
    return {
        "ready": (ready.get("status"), ready.get("reason"), ready.get("message")),
        "conditions": sorted(conditions),
        "is of this generation": status.get("observedGeneration") == obj["metadata"]["generation"],
        "replicas": (status.get("replicas"), status.get("readyReplicas")),
        "rollout": {key: rollout.get(key) for key in ("newInstances", "oldInstances", "step", "steps", "message")},
    }


def _workload(obj: Object, pods: list[Object]) -> Portrait:
    spec = obj["spec"]
    return {
        "pods asked for": spec["replicas"],
        "selector": spec["selector"]["matchLabels"],
        "pod": _pod(spec["template"], ()),
        "service": spec.get("serviceName"),
        "marks": sorted(_annotations(obj).keys() & {DRAIN_REQUESTED, DRAINED, ROLLOUT_WAITS_FOR}),
        "live pods": [_pod(each, spec["template"]["metadata"]["labels"]) for each in pods],
    }


def _pod(pod: Object, labels: Iterable[str]) -> Portrait:
    """Of a template, or of a pod: then only `labels` count, since its controller adds some."""
    metadata, container = pod["metadata"], pod["spec"]["containers"][0]
    given = metadata.get("labels", {})
    portrait = {
        "labels": {key: given.get(key) for key in labels} if labels else given,
        "image": container["image"],
        "env": {each["name"]: each.get("value") for each in container.get("env", ())},
        "group": _annotations(pod).get(POD_GROUP_NAME),
    }
    if metadata.get("deletionTimestamp"):
        portrait["is deleting"] = True
    if is_fault_to_act_on(_annotations(pod).get(POD_STATUS, "")):
        portrait["is faulty"] = True
    return portrait


def is_fault_to_act_on(says: str) -> bool:
    """Whether no pod may stay that says this. Failures of the business inside end when their retries are used up."""
    return says.startswith("Unhealthy") and not says.endswith("pod-failed")


def _image(spec: Mapping[str, Any]) -> str:
    return str(spec["template"]["spec"]["containers"][0]["image"])


def _annotations(obj: Mapping[str, Any]) -> dict[str, str]:
    return dict(obj["metadata"].get("annotations", {}))


def _key(obj: Object) -> str:
    return f"{obj['kind']}/{name_of(obj)}"
