# SPDX-License-Identifier: Apache-2.0
"""Whether the API server serves a kind that not every cluster has, told as it changes.

A kind of another product (its CRD is installed some day, or removed) and a built-in kind of newer API servers differ only in
who knows: the CRD itself, watched, or the API server's list of resources, asked from time to time.
Invariant: what could not be found out leaves the last answer standing.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from controller_runtime.errors import KubeError, TransportError
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import CRD, Kind, Object, is_deleting
from controller_runtime.kube.lifecycle import pause

ASK_PERIOD_S = 300.0
ASK_AGAIN_S = 2.0
"""Until the first answer."""

log = get_logger(__name__)


class Presence(Protocol):
    """At most one of `present` and `absent` is set; none before the first answer."""

    present: asyncio.Event
    absent: asyncio.Event

    async def keep(self, stop: asyncio.Event) -> None:
        """Keep the answer current until `stop` is set."""


class CrdPresence:
    """A kind is there while its CRD is Established, serves the version and is not being deleted.

    Watches that one CRD by name, so the right to read it may be granted by name too.
    """

    def __init__(self, client: KubeClient, kind: Kind) -> None:
        self.present, self.absent = asyncio.Event(), asyncio.Event()
        self._kind = kind
        self._crds = Informer(client, CRD, project=_reduced, field_selector=f"metadata.name={kind.plural}.{kind.group}")
        self._crds.add_handler(lambda _old, new: self._tell(new))

    async def keep(self, stop: asyncio.Event) -> None:
        """Watch the CRD until `stop` is set."""
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._crds.run(stop))
            first = group.create_task(self._crds.synced())
            await asyncio.wait({watch, first}, return_when=asyncio.FIRST_COMPLETED)
            first.cancel()
            if self._crds.is_synced and not self.present.is_set():
                _answer(self, self._kind, False)

    def _tell(self, crd: Object | None) -> None:
        _answer(self, self._kind, crd is not None and serves(crd, self._kind.version))


class DiscoveredPresence:
    """A kind is there while the API server lists it among its resources. For built-in kinds: they come with an upgrade."""

    def __init__(self, client: KubeClient, kind: Kind, *, period_s: float = ASK_PERIOD_S) -> None:
        self.present, self.absent = asyncio.Event(), asyncio.Event()
        self._client, self._kind, self._period_s = client, kind, period_s

    async def keep(self, stop: asyncio.Event) -> None:
        """Ask now and every `period_s` until `stop` is set."""
        while not stop.is_set():
            try:
                _answer(self, self._kind, await self._is_listed())
            except (KubeError, TransportError) as err:
                log.warning("resources of the API server unknown", kind=self._kind.kind, err=err)
            is_known = self.present.is_set() or self.absent.is_set()
            await pause(stop, self._period_s if is_known else ASK_AGAIN_S)

    async def _is_listed(self) -> bool:
        try:
            listed = await self._client.call("GET", f"/apis/{self._kind.group}/{self._kind.version}")
        except NotFoundError:
            return False
        return any(each.get("name") == self._kind.plural for each in listed.get("resources") or ())


def serves(crd: Object, version: str) -> bool:
    """Whether objects of a CRD can be read and made now. While a CRD is deleted its objects still can be read, not made."""
    is_established = any(
        each.get("type") == "Established" and each.get("status") == "True" for each in crd.get("status", {}).get("conditions") or ()
    )
    versions = {each.get("name") for each in crd["spec"].get("versions") or () if each.get("served")}
    return is_established and version in versions and not is_deleting(crd)


def _answer(presence: Presence, kind: Kind, is_present: bool) -> None:
    now, before = (presence.present, presence.absent) if is_present else (presence.absent, presence.present)
    if not now.is_set():
        before.clear()
        now.set()
        log.info("kind is served" if is_present else "kind is not served", kind=kind.kind, api_version=kind.api_version)


def _reduced(crd: Object) -> Object:
    """What `serves` reads: schemas are large."""
    versions = [{"name": each.get("name"), "served": each.get("served")} for each in crd["spec"].get("versions") or ()]
    metadata = {key: value for key, value in crd["metadata"].items() if key not in ("managedFields", "annotations")}
    return {**crd, "metadata": metadata, "spec": {"versions": versions}}
