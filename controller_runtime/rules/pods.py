# SPDX-License-Identifier: Apache-2.0
"""Find every pod specification and container in any object, by shape.

A mapping with a list of containers is a pod specification wherever it stands: in a Pod, in the template of every
workload kind, and in custom resources (AscendJob `spec.replicaSpecs.*.template`, InferServiceSet
`spec.template.roles[].spec.template`, InferService, InstanceSet, kinds we have never heard of). Definitions of
custom resources are skipped: they describe shapes and run nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller_runtime.rules.certainty import NotKnown, NotKnownError, certain_first
from controller_runtime.rules.objects import EMPTY, KubeObject, get, is_sequence, kind_of, label, sequence

CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
NO_PODS_INSIDE: Final = frozenset({"metadata", "status", "data", "binaryData", "stringData"})
MAY_HOLD_PODS: Final = frozenset({"spec", "roles", "replicaSpecs", "items", *CONTAINER_LISTS})


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod specification at `place`; `metadata` is that of the pod or its template."""

    place: str
    spec: KubeObject
    metadata: KubeObject
    metadata_place: str

    def security(self, key: str) -> object:
        """Value of the pod's security context."""
        return get(self.spec, "securityContext", key)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of any of the three lists."""

    place: str
    name: str
    body: KubeObject
    pod: Pod

    def security(self, *path: str) -> object:
        """Value of the container's own security context."""
        return get(self.body, "securityContext", *path)

    def security_place(self, key: str) -> str:
        """Place of a value of its own security context."""
        return f"{self.place}.securityContext.{key}"


def pods(obj: KubeObject) -> Iterator[Pod]:
    """Every pod specification. Raises NotKnownError at the end when a part that may hold pods is not known."""
    if kind_of(obj) != "CustomResourceDefinition":
        yield from _pods(obj, "", EMPTY, "")


def containers(obj: KubeObject) -> Iterator[Container]:
    """Every container of every pod specification: normal, init (sidecars are init containers) and ephemeral ones."""
    return certain_first(containers_of(pod) for pod in pods(obj))


def containers_of(pod: Pod) -> Iterator[Container]:
    """Every container of one pod specification."""
    return certain_first(_listed(pod, name) for name in CONTAINER_LISTS)


def _listed(pod: Pod, list_name: str) -> Iterator[Container]:
    for index, body in enumerate(sequence(pod.spec, list_name)):
        if isinstance(body, Mapping):
            name = label(body, index)
            yield Container(f"{pod.place}.{list_name}[{name}]", name, body, pod)


def _pods(node: KubeObject, place: str, metadata: KubeObject, metadata_place: str) -> Iterator[Pod]:
    if any(_holds_containers(node.get(name)) for name in CONTAINER_LISTS):
        yield Pod(place, node, metadata, metadata_place)
        return
    own = node.get("metadata")
    inner = own if isinstance(own, Mapping) else EMPTY
    unknown: NotKnown | None = None
    for key, value in node.items():
        if key in NO_PODS_INSIDE:
            continue
        for child_place, child in _branches(f"{place}.{key}" if place else key, value):
            if isinstance(child, Mapping):
                yield from _pods(child, child_place, inner, f"{place}.metadata" if place else "metadata")
            elif isinstance(child, NotKnown) and (key in MAY_HOLD_PODS or key.lower().endswith("template")):
                unknown = unknown or child
    if unknown is not None:
        raise NotKnownError(unknown)


def _branches(place: str, value: object) -> Iterator[tuple[str, object]]:
    if not is_sequence(value):
        yield place, value
        return
    for index, item in enumerate(value):
        yield from _branches(f"{place}[{label(item, index)}]", item)


def _holds_containers(value: object) -> bool:
    return is_sequence(value) and any(isinstance(item, Mapping) and ("image" in item or "name" in item) for item in value)
