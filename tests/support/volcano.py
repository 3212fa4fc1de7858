# SPDX-License-Identifier: Apache-2.0
"""Volcano's PodGroup kind as its CRD declares it, reduced to what the operator writes and Volcano reports."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.kind import CRD, POD_GROUP, Object
from controller_runtime.kube.presence import serves
from tests.support.eventually import eventually

NAME = "podgroups.scheduling.volcano.sh"
QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    "x-kubernetes-int-or-string": True,
}
SPEC = {
    "type": "object",
    "properties": {
        "minMember": {"type": "integer", "format": "int32"},
        "minResources": {"type": "object", "additionalProperties": QUANTITY},
        "minTaskMember": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
        "priorityClassName": {"type": "string"},
        "queue": {"type": "string", "default": "default"},
    },
}
STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
POD_GROUP_CRD: Object = {
    "apiVersion": CRD.api_version,
    "kind": CRD.kind,
    "metadata": {"name": NAME},
    "spec": {
        "group": POD_GROUP.group,
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": POD_GROUP.version,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
                "subresources": {"status": {}},
            }
        ],
    },
}


async def install(client: KubeClient) -> None:
    """Install the CRD and wait until it is served."""
    await client.apply(POD_GROUP_CRD)

    async def is_served() -> bool:
        return serves(await client.get(CRD, NAME), POD_GROUP.version)

    await eventually(is_served, "PodGroups are served", 60)


async def remove(client: KubeClient) -> None:
    """Remove the CRD with every PodGroup, and wait until it is gone."""
    with contextlib.suppress(NotFoundError):
        await client.delete(CRD, NAME)

    async def is_gone() -> bool:
        try:
            await client.get(CRD, NAME)
        except NotFoundError:
            return True
        return False

    await eventually(is_gone, "PodGroups are no longer served", 60)


@contextlib.asynccontextmanager
async def installed(client: KubeClient) -> AsyncIterator[None]:
    """PodGroups are served within."""
    await install(client)
    try:
        yield
    finally:
        await remove(client)
