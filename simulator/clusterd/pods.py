# SPDX-License-Identifier: Apache-2.0
"""What ClusterD reads out of pods and nodes. Pure parsing, tolerant of everything that may be absent.

A pod counts as live from the moment it has an address until it is deleted or has ended. Ready does not
matter: a Controller waits for the rank table before it becomes Ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from controller_runtime.api.labels import INSTANCE_INDEX, INSTANCE_SET_NAME, SERVICE_NAME
from controller_runtime.api.rank_table import HARDWARE_DECODE, HARDWARE_PREFILL
from controller_runtime.api.stack import NPU_RESOURCE

DEPLOY_SERVER_LABEL: Final = "grt-group/deploy-server"
HARDWARE_ANNOTATION: Final = "mind-cluster/hardware-type"
HARDWARE_NODE_LABEL: Final = "hardware-type"
ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})

HARDWARE_NAMES: Final = MappingProxyType({"800I-A2-32G": HARDWARE_PREFILL, "800I-A2-64G": HARDWARE_DECODE})
"""Kubernetes label value -> rank table value, which has characters that a label must not have."""


@dataclass(frozen=True)
class PodFacts:
    """One live pod. `instance` names the instance it belongs to, `npu_ids` the physical ids of its NPUs."""

    name: str
    pod_ip: str
    host_ip: str
    node: str = ""
    instance: tuple[str, ...] = ()
    deploy_server: str | None = None
    hardware: str | None = None
    npu_ids: tuple[int, ...] = field(default=())


def read_pod(pod: Mapping[str, Any]) -> PodFacts | None:
    """Read a pod; None when it is not live. `hardware` is the Kubernetes spelling, if the pod itself tells it."""
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    if metadata.get("deletionTimestamp") or status.get("phase") in ENDED_PHASES or not status.get("podIP"):
        return None
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    keys = (labels.get(SERVICE_NAME), labels.get(INSTANCE_SET_NAME), labels.get(INSTANCE_INDEX))
    return PodFacts(
        name=metadata["name"],
        pod_ip=status["podIP"],
        host_ip=status.get("hostIP", ""),
        node=spec.get("nodeName", ""),
        instance=tuple(key or "" for key in keys) if all(keys) else (metadata["name"],),
        deploy_server=labels.get(DEPLOY_SERVER_LABEL),
        hardware=annotations.get(HARDWARE_ANNOTATION) or labels.get(HARDWARE_NODE_LABEL),
        npu_ids=_npu_ids(annotations.get(NPU_RESOURCE, ""), _npu_count(spec)),
    )


def node_hardware(node: Mapping[str, Any]) -> str | None:
    """The node's `hardware-type` label."""
    label: str | None = (node["metadata"].get("labels") or {}).get(HARDWARE_NODE_LABEL)
    return label


def _npu_count(spec: Mapping[str, Any]) -> int:
    requests = (container.get("resources", {}).get("requests", {}) for container in spec.get("containers", ()))
    return sum(int(request.get(NPU_RESOURCE, 0)) for request in requests)


def _npu_ids(annotation: str, count: int) -> tuple[int, ...]:
    """Ids from `Ascend910-3,Ascend910-5` as the device plugin writes it, else 0 to count - 1."""
    tails = [part.rpartition("-")[2] for part in annotation.split(",") if part]
    if len(tails) == count and all(tail.isascii() and tail.isdecimal() for tail in tails):
        return tuple(int(tail) for tail in tails)
    return tuple(range(count))
