# SPDX-License-Identifier: Apache-2.0
"""Which template an instance was made from, told by a content hash on its workload.

Only what restarts pods counts: kind and spec of the workload, not its own labels. A workload whose mark is missing or of
another format (an older operator, an object that somebody replaced) is judged by its content, so that neither a new format
nor lost annotations restart anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller_runtime.api.labels import GANG_SCHEDULE, INFER_SERVICE_ID, REVISION
from controller_runtime.api.meta import JsonObject
from controller_runtime.kube.kind import Kind, Object
from controller_runtime.reconcilers.differences import covers, digest

FORMAT = "v1"
"""Raise it when the way of hashing changes."""


def revision_of(canonical: Mapping[str, Any]) -> str:
    """The revision of a role, from the workload it wants for instance 0."""
    return f"{FORMAT}-{digest([canonical['apiVersion'], canonical['kind'], canonical['spec']])}"


def is_of_this_format(revision: str) -> bool:
    """Whether two revisions can be compared: they were hashed in the same way."""
    return revision.startswith(f"{FORMAT}-")


def marked(desired: JsonObject, revision: str) -> JsonObject:
    """A copy of a desired workload that tells its revision."""
    metadata = desired["metadata"]
    return {**desired, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), REVISION: revision}}}


def is_current(live: Object, kind: Kind, revision: str, desired: Callable[[], JsonObject]) -> bool:
    """Whether a workload is of `revision`. `desired`: makes what its instance wants, for one without a usable mark."""
    if (live.get("apiVersion"), live.get("kind")) != (kind.api_version, kind.kind):
        return False
    mark = str(live["metadata"].get("annotations", {}).get(REVISION, ""))
    return mark == revision if is_of_this_format(mark) else covers(live["spec"], desired()["spec"])


def template_revision(templates: Mapping[str, JsonObject]) -> str:
    """The revision of a whole service: the templates of its roles, by role."""
    return f"{FORMAT}-{digest(templates)}"


def template_of(role: Mapping[str, Any], labels: Mapping[str, str]) -> JsonObject:
    """What of an InstanceSet's spec and labels its instances are made from; the number of instances is not."""
    group = labels.get(INFER_SERVICE_ID)
    return {"workload": role.get("workload"), "spec": role.get("spec"), "gang": labels.get(GANG_SCHEDULE) == "true", "group": group}
