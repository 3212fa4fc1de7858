# SPDX-License-Identifier: Apache-2.0
"""A running operator inside a test, and the questions tests ask about what it made."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.kind import (
    DEPLOYMENT,
    EVENT,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Object,
    name_of,
    resource_version_of,
    uid_of,
)
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.reconcilers.operator import OperatorSettings, build_operator
from tests.support.eventually import eventually

DEADLINE_S = 90
"""The garbage collector learns of new kinds only every 30 s; a child of a deleted owner may stay that long."""
CHILDREN = (INFER_SERVICE, INSTANCE_SET, DEPLOYMENT, STATEFUL_SET, SERVICE)


@contextlib.asynccontextmanager
async def running_operator(
    client: KubeClient, settings: OperatorSettings | None = None, *, elector: LeaseElector | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Run the operator; it stops cleanly at the end. The task may be cancelled meanwhile: a crash."""
    stop = asyncio.Event()
    task = asyncio.create_task(build_operator(client, settings, elector=elector).run(stop))
    try:
        yield task
    finally:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Cluster:
    """One namespace, seen by an administrator."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def write(self, obj: Object) -> Object:
        """Create an object in the namespace."""
        return await self.client.create({**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}})

    async def get(self, kind: Kind, name: str) -> Object:
        """Read an object."""
        return await self.client.get(kind, name, self.namespace)

    async def find(self, kind: Kind, name: str) -> Object | None:
        """Read an object that may not exist."""
        try:
            return await self.get(kind, name)
        except NotFoundError:
            return None

    async def edit(self, kind: Kind, name: str, *operations: tuple[str, str, Any]) -> Object:
        """JSON patch: `("replace", "/spec/replicas", 2)`; `remove` ignores its value."""
        patch = [{"op": verb, "path": path} | ({} if verb == "remove" else {"value": value}) for verb, path, value in operations]
        return await self.client.patch(kind, name, self.namespace, patch, "json")

    async def delete(self, kind: Kind, name: str) -> None:
        """Delete an object in the background."""
        await self.client.delete(kind, name, self.namespace)

    async def names(self, kind: Kind) -> list[str]:
        """Names of a kind, sorted."""
        return sorted(name_of(each) for each in (await self.client.list(kind, self.namespace))[0])

    async def uids(self, *kinds: Kind) -> dict[str, str]:
        """Uid of every object of these kinds by `Kind/name`."""
        return {
            f"{kind.kind}/{name_of(each)}": uid_of(each) for kind in kinds for each in (await self.client.list(kind, self.namespace))[0]
        }

    async def versions(self) -> dict[str, str]:
        """Resource version of every set and child by `Kind/name`."""
        kinds = (INFER_SERVICE_SET, *CHILDREN)
        listed = [(kind, each) for kind in kinds for each in (await self.client.list(kind, self.namespace))[0]]
        return {f"{kind.kind}/{name_of(each)}": resource_version_of(each) for kind, each in listed}

    async def condition(self, kind: Kind, name: str) -> tuple[str, str, str] | None:
        """`(status, reason, message)` of Ready for the present generation, None when not said yet."""
        obj = await self.find(kind, name)
        status = (obj or {}).get("status", {})
        if obj is None or status.get("observedGeneration") != obj["metadata"]["generation"]:
            return None
        return next(((c["status"], c["reason"], c["message"]) for c in status.get("conditions", ()) if c["type"] == "Ready"), None)

    async def until_ready(self, kind: Kind, name: str) -> None:
        """Wait for Ready of the present generation."""
        last: list[Any] = [None]

        async def is_ready() -> bool:
            last[0] = await self.condition(kind, name)
            return bool(last[0]) and last[0][0] == "True"

        with _explained(last):
            await eventually(is_ready, f"{kind.kind} {name} is Ready", DEADLINE_S)

    async def until_blocked(self, kind: Kind, name: str, reason: str = "ValidateError") -> str:
        """Wait for a condition of that reason and return its message."""
        last: list[Any] = [None]

        async def is_blocked() -> bool:
            last[0] = await self.condition(kind, name)
            return bool(last[0]) and last[0][:2] == ("False", reason)

        with _explained(last):
            await eventually(is_blocked, f"{kind.kind} {name} says {reason}", DEADLINE_S)
        return str(last[0][2])

    async def until_names(self, kind: Kind, *expected: str) -> None:
        """Wait until exactly these objects of a kind exist."""
        last: list[Any] = [None]

        async def are() -> bool:
            last[0] = await self.names(kind)
            return bool(last[0] == sorted(expected))

        with _explained(last):
            await eventually(are, f"{kind.kind} are {sorted(expected)}", DEADLINE_S)

    async def until_quiet(self, client: Any, checks: int = 30) -> None:
        """Wait until `client` (recording) made no write in this namespace for `checks` polls in a row."""
        seen, calm = -1, 0

        def is_quiet() -> bool:
            nonlocal seen, calm
            now = len(client.writes_in(self.namespace))
            seen, calm = now, calm + 1 if now == seen else 0
            return calm >= checks

        await eventually(is_quiet, "the operator is quiet", DEADLINE_S)

    async def events(self, reason: str) -> list[tuple[str, int]]:
        """`(Kind/name, count)` of every Event of that reason."""
        found = (await self.client.list(EVENT, self.namespace))[0]
        return sorted(
            (f"{each['involvedObject']['kind']}/{each['involvedObject']['name']}", each["count"])
            for each in found
            if each["reason"] == reason
        )


@contextlib.contextmanager
def _explained(last: list[Any]) -> Any:
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}; last seen: {last[0]}") from None
