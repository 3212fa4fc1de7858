# SPDX-License-Identifier: Apache-2.0
"""What is compared between our objects and those observed from the reference operator, and how two of them differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from controller_runtime.kube.kind import Object, name_of, uid_of

DATA = Path(__file__).parents[1] / "data" / "reference"
OTHERS = ("deployment.kubernetes.io/",)
"""Annotations that Kubernetes' own controllers add."""
HASHES = ("infer.huawei.com/applied-hash", "infer.huawei.com/revision")
ABSENT = "<absent>"


def reduced(obj: Object) -> Object:
    """Names, labels, annotations, owners, and of the spec what the operator decides. Reducing twice changes nothing."""
    metadata, owners = obj["metadata"], obj["metadata"].get("ownerReferences") or []
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith(OTHERS)}
    made = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": {
            "name": metadata["name"],
            "labels": metadata.get("labels") or {},
            "annotations": {key: "<hash>" if key in HASHES else value for key, value in annotations.items()},
            "ownerReferences": [{key: value for key, value in each.items() if key != "uid"} for each in owners],
        },
    }
    spec = obj.get("spec") or {}
    match obj["kind"]:
        case "Deployment" | "StatefulSet":
            made["spec"] = _workload(spec)
        case "Service":
            made["spec"] = {**spec, **{key: _address(spec[key]) for key in ("clusterIP", "clusterIPs") if key in spec}}
        case "PodGroup":
            made["spec"] = {key: value for key, value in spec.items() if key != "queue"}
        case "HorizontalPodAutoscaler":
            made["spec"] = spec
    return made


def observed(variant: str) -> dict[str, Object]:
    """What the reference made, by `Kind/name`."""
    documents = yaml.safe_load_all((DATA / variant / "observed.yaml").read_text())
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in documents}


def input_of(variant: str) -> Object:
    """The InferServiceSet both operators were given."""
    given: Object = yaml.safe_load((DATA / variant / "input.yaml").read_text())
    return given


def without_uids(objects: list[Object]) -> dict[str, Object]:
    """Our live objects by `Kind/name`, reduced, uids in values replaced as in the observations."""
    names = {uid_of(each): f"<uid of {each['kind']}/{name_of(each)}>" for each in objects}

    def replaced(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: replaced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        return names.get(value, value) if isinstance(value, str) else value

    return {f"{each['kind']}/{name_of(each)}": replaced(reduced(each)) for each in objects}


@dataclass(frozen=True)
class Difference:
    """One place where two operators disagree. `path` empty: one of them has no such object."""

    obj: str
    path: str
    theirs: Any
    ours: Any


def differences(theirs: Mapping[str, Object], ours: Mapping[str, Object]) -> Iterator[Difference]:
    """Every disagreement, in the order of names and paths."""
    for name in sorted(theirs.keys() | ours.keys()):
        if name in theirs and name in ours:
            yield from _between(name, "", theirs[name], ours[name])
        else:
            yield Difference(name, "", "made" if name in theirs else ABSENT, "made" if name in ours else ABSENT)


@dataclass(frozen=True)
class Listed:
    """One deliberate difference: where it is (shell patterns), what both have, and why."""

    variants: tuple[str, ...]
    obj: str
    path: str
    reason: str
    theirs: Any = None
    ours: Any = None

    def explains(self, found: Difference) -> bool:
        """Whether this entry is about `found`. A value that is not listed may be anything."""
        return (
            any(fnmatchcase(found.obj, each) for each in self.obj.split("|"))
            and fnmatchcase(found.path, self.path)
            and all(want is None or want == has for want, has in ((self.theirs, found.theirs), (self.ours, found.ours)))
        )


def listed() -> list[Listed]:
    """Every deliberate difference."""
    entries = yaml.safe_load((DATA / "differences.yaml").read_text())
    return [Listed(**{**each, "variants": tuple(each["variants"])}) for each in entries]


def _workload(spec: Object) -> Object:
    template = spec.get("template") or {}
    metadata, pod = template.get("metadata") or {}, template.get("spec") or {}
    return {
        **{key: spec[key] for key in ("replicas", "selector", "serviceName", "podManagementPolicy") if key in spec},
        "template": {
            "metadata": {"labels": metadata.get("labels") or {}, "annotations": metadata.get("annotations") or {}},
            "spec": {
                "schedulerName": pod.get("schedulerName"),
                "containers": [{"name": each["name"], "env": each.get("env") or []} for each in pod.get("containers") or ()],
                "volumes": [{"name": each["name"]} for each in pod.get("volumes") or ()],
            },
        },
    }


def _address(value: Any) -> Any:
    if isinstance(value, list):
        return [_address(each) for each in value]
    return value if value in ("None", "") else "<assigned>"


def _between(name: str, path: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from _between(name, f"{path}.{key}", theirs.get(key, ABSENT), ours.get(key, ABSENT))
    elif isinstance(theirs, list) and isinstance(ours, list):
        named = _by_name(theirs), _by_name(ours)
        yield from _between(name, path, *named)
        if named[0].keys() == named[1].keys() and [*named[0]] != [*named[1]]:
            yield Difference(name, f"{path} order", [*named[0]], [*named[1]])
    elif theirs != ours:
        yield Difference(name, path, theirs, ours)


def _by_name(items: list[Any]) -> dict[str, Any]:
    """List items under their name, otherwise their place."""
    return {str(each.get("name", place) if isinstance(each, Mapping) else place): each for place, each in enumerate(items)}
