# SPDX-License-Identifier: Apache-2.0
"""Our objects beside those the reference operator makes of the same sets.

Everything the reference stores must be what we want, except the differences listed here, each of which is deliberate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.infer_service_set import InferServiceSet
from controller_runtime.api.infer_validation import Capabilities, check_service
from controller_runtime.api.instance_set import InstanceSet
from controller_runtime.api.names import service_place
from controller_runtime.kube.kind import Object
from controller_runtime.reconcilers.differences import equal
from controller_runtime.reconcilers.infer_service import desired_instance_set
from controller_runtime.reconcilers.infer_service_set import desired_infer_services
from controller_runtime.reconcilers.instance_set import desired_services
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.workloads import handler_of
from tests.support.infer import stored

DATA = Path(__file__).parents[4] / "tests" / "data" / "infer-operator"
SET_UID = "set-uid"

Key = tuple[str, str]


def uid(kind: str, name: str) -> str:
    """How the observations write a uid that is used as a value."""
    return f"<uid of {kind}/{name}>"


def made(variant: str) -> dict[Key, Object]:
    """Everything we want for the input of `variant`, by kind and name, from the set down."""
    parent = InferServiceSet.model_validate(stored(yaml.safe_load((DATA / variant / "input.yaml").read_text()), SET_UID))
    objects: dict[Key, Object] = {}
    for each in desired_infer_services(parent):
        objects |= {("InferService", each["metadata"]["name"]): each, **below_service(each)}
    return objects


def below_service(obj: Object) -> dict[Key, Object]:
    name = obj["metadata"]["name"]
    parent = InferService.model_validate(stored(obj, uid("InferService", name)))
    place = service_place(name, parent.metadata.labels)
    findings = check_service(name, parent.spec, place.offset, Capabilities())
    objects: dict[Key, Object] = {}
    for role in parent.spec.roles:
        if role.name not in findings.roles:
            desired = desired_instance_set(parent, role)
            objects |= {("InstanceSet", desired["metadata"]["name"]): desired, **below_instance_set(desired, parent.metadata.labels)}
    return objects


def below_instance_set(obj: Object, service_labels: dict[str, str]) -> dict[Key, Object]:
    view = RoleView.of(InstanceSet.model_validate(stored(obj, uid("InstanceSet", obj["metadata"]["name"]))), service_labels)
    workload = view.instance_set.spec.workload
    assert workload is not None
    handler = handler_of(workload.api_version, workload.kind)
    assert handler is not None
    children = [*desired_services(view, handler), *(handler.desired(view, index) for index in range(view.replicas))]
    return {(each["kind"], each["metadata"]["name"]): each for each in children}


def observed(variant: str) -> dict[Key, Object]:
    """What the reference stored."""
    documents = yaml.safe_load_all((DATA / variant / "observed.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Paths at which `theirs` lacks what `ours` states."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from differences(value, theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            yield from differences(one, other, f"{path}[]")
    elif not equal(ours, theirs):
        yield path


def without_uids(obj: Object) -> Object:
    references = [{key: value for key, value in each.items() if key != "uid"} for each in obj["metadata"]["ownerReferences"]]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}


DELIBERATE = {
    ".spec.publishNotReadyAddresses": "ranks of an instance must find each other before any is ready",
    ".spec.ports[].targetPort": "leads to the port the container declares",
    ".metadata.labels.sl": "metadata of a declared Service is applied",
    ".metadata.annotations": "metadata of a declared Service is applied",
}
REPAIRED = {
    "defaults": {
        "more": {("StatefulSet", "defaults-0-nopods-0"), ("StatefulSet", "defaults-0-nosel-0")},
        "fewer": {
            ("InstanceSet", "defaults-0-badkind"),
            ("InstanceSet", "defaults-0-norepl"),
            ("InstanceSet", "defaults-0-nolabels"),
            ("Service", "service-defaults-0-nolabels-0"),
        },
    }
}
"""Absent pods per instance and selectors have defaults; roles that cannot run are told and get nothing."""


@pytest.mark.parametrize("variant", ["plain", "services", "superpod", "defaults"])
def test_we_make_the_objects_the_reference_makes(variant: str) -> None:
    repaired = REPAIRED.get(variant, {"more": set(), "fewer": set()})

    assert set(made(variant)) - set(observed(variant)) == repaired["more"]
    assert set(observed(variant)) - set(made(variant)) == repaired["fewer"]


@pytest.mark.parametrize("variant", ["plain", "services", "superpod", "defaults"])
def test_names_labels_owners_environment_and_services_are_the_reference_s(variant: str) -> None:
    theirs = observed(variant)
    found = {
        f"{kind} {name}{path}"
        for (kind, name), ours in made(variant).items()
        if (kind, name) in theirs
        for path in differences(without_uids(ours), theirs[kind, name])
        if not (kind == "Service" and path in DELIBERATE)
    }

    assert found == set()


@pytest.mark.parametrize("variant", ["plain", "services", "superpod"])
def test_labels_are_no_fewer_than_the_reference_s(variant: str) -> None:
    ours = made(variant)
    lacking = [
        key
        for key, theirs in observed(variant).items()
        for part in (lambda obj: obj["metadata"].get("labels", {}), lambda obj: pod_labels(obj))
        if not part(theirs).items() <= part(ours[key]).items()
    ]

    assert lacking == []


def pod_labels(obj: Object) -> dict[str, str]:
    template = obj["spec"].get("template") or {}
    labels: dict[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels
