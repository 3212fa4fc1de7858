# SPDX-License-Identifier: Apache-2.0
"""S35: pods inside custom resources are judged like any other.

The pod rules find templates in custom resources by shape. What is left is a template that is only text: it would
become a pod that no rule has seen.
Seed: operator RFC, `template` of InferServiceSet, InferService and InstanceSet; controller manual, AscendJob.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from controller_runtime.rules.config_files import parse
from controller_runtime.rules.model import Finding, Severity, rule
from controller_runtime.rules.objects import KubeObject, is_sequence, label
from controller_runtime.rules.pods import CONTAINER_LISTS

_BUILT_IN_GROUPS: Final = frozenset({"apps", "batch", "autoscaling", "policy", "extensions"})


@rule(
    "S35",
    title="Pod templates in custom resources can be judged",
    reason="A controller makes pods of the template; written as text it passes every pod rule unread.",
    control=("PSS-B", "PSS-R"),
    remedy="Write the template as an object, not as text",
    severity=Severity.HIGH,
    each=lambda obj: _texts(obj.get("spec"), "spec") if _is_custom(obj) else (),
)
def judgeable_templates(text: tuple[str, str]) -> Iterator[Finding]:
    """Text that parses to something with containers in it."""
    place, content = text
    if any(name in content for name in CONTAINER_LISTS) and _has_containers(parse(content)):
        yield Finding(place, "holds a pod template as text, which no pod rule can read")


def _is_custom(obj: KubeObject) -> bool:
    group, slash, _ = str(obj.get("apiVersion", "")).partition("/")
    return bool(slash) and group not in _BUILT_IN_GROUPS and not group.endswith(".k8s.io")


def _texts(node: object, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, str):
        yield place, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if key not in CONTAINER_LISTS:
                yield from _texts(value, f"{place}.{key}")
    elif is_sequence(node):
        for index, value in enumerate(node):
            yield from _texts(value, f"{place}[{label(value, index)}]")


def _has_containers(node: object) -> bool:
    if isinstance(node, Mapping):
        return any(is_sequence(node.get(name)) for name in CONTAINER_LISTS) or any(_has_containers(value) for value in node.values())
    return is_sequence(node) and any(_has_containers(value) for value in node)
