# SPDX-License-Identifier: Apache-2.0
"""All writes to children: create, update, replace, delete. Nothing is written that is already so.

Invariants: an object that another owner controls is never changed, whatever its name; an update or delete reaches only the
very object the decision was made on (its uid travels along). Creation is a server-side apply with a resource version that no
live object has: the API server creates the object, or answers with a conflict when the name is taken. So one field manager
owns every field from the first write on, and a field that leaves the template leaves the object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from controller_runtime.api.meta import JsonObject
from controller_runtime.errors import KubeError, TemporaryError, TransportError
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.client import KubeClient, Propagation
from controller_runtime.kube.errors import ConflictError, InvalidError, NotFoundError
from controller_runtime.kube.kind import (
    Object,
    controller_owner_of,
    is_deleting,
    kind_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from controller_runtime.reconcilers.differences import fingerprint, is_as_wanted, with_hash

IN_FLIGHT = 8
"""Writes of one reconcile under way at a time."""
FUTILE_MAX = 10_000
MUST_NOT_EXIST = "1"
"""Resource version of no live object: etcd's first revision is older than anything the API server stores."""

Item = TypeVar("Item")
Adapt: TypeAlias = Callable[[JsonObject, Object], JsonObject]
"""`adapt(wanted, live)`: what to write when something of the live object is for others to decide. `wanted` itself: nothing is."""
WriteError: TypeAlias = KubeError | TransportError | TemporaryError

log = get_logger(__name__)


class NameTakenError(TemporaryError):
    """The name of a child belongs to an object of somebody else."""


class PredecessorError(TemporaryError):
    """The name belongs to a child of our owner's predecessor of the same name; the garbage collector removes it."""


class StillDeletingError(TemporaryError):
    """The predecessor of a child is not gone yet. Its deletion wakes the owner."""


class ChildWriter:
    """Writes the children of one controller. Remembers nothing but writes that the API server made nothing of."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._futile: dict[str, str] = {}

    async def ensure(self, desired: JsonObject, live: Object | None, adapt: Adapt | None = None) -> Object:
        """Bring one child to `desired` and return it as it is then. `live`: what the cache has of that name and owner.

        What `adapt` took over from the live object is written only if the object did not change meanwhile.

        Raises:
            NameTakenError: the name belongs to an object that another owner controls.
            PredecessorError: it belongs to an object that is about to go.
            StillDeletingError: the child of that name is being deleted.
            InvalidError: the API server refuses the object.
        """
        wanted = with_hash(desired)
        if live is None:
            return await self._create(wanted, adapt)
        return await self._update(wanted, live, adapt)

    async def delete(self, child: Object, propagation: Propagation = "Background") -> None:
        """Delete a child unless it is gone or being deleted."""
        if is_deleting(child):
            return
        try:
            await self._client.delete(kind_of(child), name_of(child), namespace_of(child), uid=uid_of(child), propagation=propagation)
        except (NotFoundError, ConflictError):
            return
        log.info("child deleted", kind=child["kind"], namespace=namespace_of(child), name=name_of(child))

    async def annotate(self, child: Object, annotations: Mapping[str, str | None]) -> Object:
        """Set annotations of a child and remove those given as None; all else stays, even where it is outdated."""
        patch = {"metadata": {"uid": uid_of(child), "annotations": dict(annotations)}}
        return await self._client.patch(kind_of(child), name_of(child), namespace_of(child), patch)

    async def replace(self, child: Object, propagation: Propagation) -> None:
        """Delete a child so that its successor of the same name can be made. `Foreground`: after what it owns is gone.

        Raises:
            StillDeletingError: always; its deletion wakes the owner.
        """
        await self.delete(child, propagation)
        raise StillDeletingError(
            f"{child['kind']} {name_of(child)}: is deleted because a field changed that cannot change. It is made again."
        )

    async def _create(self, wanted: JsonObject, adapt: Adapt | None) -> Object:
        try:
            created = await self._client.apply(_stamped(wanted, "resourceVersion", MUST_NOT_EXIST))
        except ConflictError:
            return await self._take_up(wanted, adapt)
        log.info("child created", kind=created["kind"], namespace=namespace_of(created), name=name_of(created))
        return created

    async def _take_up(self, wanted: JsonObject, adapt: Adapt | None) -> Object:
        """The name is taken: by our own child that the cache does not show, or by somebody else's object."""
        try:
            live = await self._client.get(kind_of(wanted), name_of(wanted), namespace_of(wanted))
        except NotFoundError:
            return await self._create(wanted, adapt)
        owner, ours = controller_owner_of(live) or {}, controller_owner_of(wanted) or {}
        if owner.get("uid") == ours.get("uid"):
            return await self._update(wanted, live, adapt)
        what = f"{live['kind']} {name_of(live)}"
        if is_deleting(live) or (owner.get("kind"), owner.get("name")) == (ours.get("kind"), ours.get("name")):
            raise PredecessorError(
                f"{what}: is left of an earlier {ours.get('kind')} {ours.get('name')}. It is made again when it is gone."
            )
        holder = f"{owner['kind']} {owner['name']}" if owner else "nobody"
        raise NameTakenError(f"{what}: exists and is controlled by {holder}. Rename the service or role, or delete that object.")

    async def _update(self, stated: JsonObject, live: Object, adapt: Adapt | None) -> Object:
        if is_deleting(live):
            raise StillDeletingError(f"{live['kind']} {name_of(live)}: is being deleted. It is made again when it is gone.")
        wanted = adapt(stated, live) if adapt else stated
        if is_as_wanted(live, wanted) or self._futile.get(uid_of(live)) == fingerprint(live):
            return live
        body = _stamped(wanted, "uid", uid_of(live))
        if wanted is not stated:
            body = _stamped(body, "resourceVersion", resource_version_of(live))
        try:
            updated = await self._client.apply(body)
        except InvalidError as err:
            if "metadata.uid" in str(err):
                raise ConflictError(f"{live['kind']} {name_of(live)}: was replaced meanwhile", status=409) from err
            raise
        self._note(wanted, updated)
        log.info("child updated", kind=updated["kind"], namespace=namespace_of(updated), name=name_of(updated))
        return updated

    def _note(self, wanted: JsonObject, updated: Object) -> None:
        """Remember what the API server stores otherwise than stated (a webhook, a dropped zero), so as not to insist for ever."""
        if is_as_wanted(updated, wanted):
            self._futile.pop(uid_of(updated), None)
            return
        if len(self._futile) >= FUTILE_MAX:
            self._futile.clear()
        self._futile[uid_of(updated)] = fingerprint(updated)


async def for_each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> list[tuple[Item, WriteError]]:
    """Do `work` on every item, some at a time. One failure does not stop the others: all are returned, in the order of `items`."""
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def guarded(item: Item) -> tuple[Item, WriteError | None]:
        async with gate:
            try:
                await work(item)
            except (KubeError, TransportError, TemporaryError) as err:
                return item, err
        return item, None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(guarded(item)) for item in items]
    return [(item, err) for item, err in (task.result() for task in tasks) if err is not None]


def raise_first(failures: Sequence[tuple[object, WriteError]]) -> None:
    """Let the work queue try again, unless a deletion under way will wake the owner anyway."""
    for _, failure in failures:
        if not isinstance(failure, StillDeletingError):
            raise failure


def _stamped(obj: JsonObject, key: str, value: str) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], key: value}}
