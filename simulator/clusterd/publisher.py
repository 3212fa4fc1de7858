# SPDX-License-Identifier: Apache-2.0
"""Keeps the ConfigMap `global-ranktable` and the gRPC subscribers in step with the live pods.

Works from synced caches only, so an API server that is away changes nothing: the last table stays. Writes
are guarded by the resource version that was read just before; a conflict means looking again. Somebody
else's change of the table (a redeployment that resets it) is overwritten within `RECHECK_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from controller_runtime.api.rank_table import FILE_NAME, RankTable
from controller_runtime.clusterd.proto.fault_pb2 import FaultMsgSignal
from controller_runtime.errors import KubeError, TransportError
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ConflictError, NotFoundError
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import CONFIG_MAP, NODE, POD, Object
from controller_runtime.kube.lifecycle import pause, run_until
from simulator.clusterd.faults import fault_message, is_same_fault
from simulator.clusterd.latest import Latest
from simulator.clusterd.pods import PodFacts, node_hardware, read_pod
from simulator.clusterd.ranktable import build_rank_table

SETTLE_S: Final = 0.1
"""Changes that come together are published together."""

RECHECK_S: Final = 5.0
"""How often the ConfigMap is compared without any change of a pod: one read, no right to list ConfigMaps needed."""

RETRY_BASE_S, RETRY_CAP_S = 0.2, 5.0

log = get_logger(__name__)


@dataclass(frozen=True)
class Watched:
    """Where to look: one namespace, one label selector for each kind of pod, the ConfigMap to keep."""

    namespace: str
    controllers: str
    coordinators: str
    servers: str
    config_map: str


class Publisher:
    """Watches pods and nodes, writes the ConfigMap, feeds `tables` and `faults`."""

    def __init__(self, client: KubeClient, watched: Watched, job_id: str, tables: Latest[str], faults: Latest[FaultMsgSignal]) -> None:
        self._client = client
        self._watched = watched
        self._job_id = job_id
        self._tables = tables
        self._faults = faults
        self._dirty = asyncio.Event()
        selectors = (watched.controllers, watched.coordinators, watched.servers)
        self._pods = [Informer(client, POD, watched.namespace, selector) for selector in selectors]
        self._nodes = Informer(client, NODE)
        for informer in self._informers:
            informer.add_handler(self._on_change)

    @property
    def _informers(self) -> list[Informer]:
        return [*self._pods, self._nodes]

    @property
    def is_synced(self) -> bool:
        """True when all caches were filled once."""
        return all(informer.is_synced for informer in self._informers)

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(stop))
            tasks.create_task(self._publish_until(stop))
            await stop.wait()
            self._dirty.set()

    def _on_change(self, old: Object | None, new: Object | None) -> None:
        self._dirty.set()

    async def _synced(self) -> None:
        for informer in self._informers:
            await informer.synced()

    async def _publish_until(self, stop: asyncio.Event) -> None:
        """Publish whenever something changed. A write that has begun is finished, not cut off."""
        await run_until(stop, self._synced())
        backoff = Backoff(RETRY_BASE_S, RETRY_CAP_S)
        self._dirty.set()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RECHECK_S):
                    await self._dirty.wait()
                    await pause(stop, SETTLE_S)
            if stop.is_set():
                return
            self._dirty.clear()
            try:
                await self._publish()
            except (KubeError, TransportError) as err:
                log.warning("rank table not written, trying again", err=err)
                self._dirty.set()
                await pause(stop, backoff.next_s())
            else:
                backoff.reset()

    async def _publish(self) -> None:
        self._publish_faults()
        controllers, coordinators, servers = (_live(informer.store.all()) for informer in self._pods)
        hardware = {node["metadata"]["name"]: node_hardware(node) or "" for node in self._nodes.store.all()}
        table = build_rank_table(controllers, coordinators, servers, hardware)
        await self._write(table)
        self._push(table)

    async def _write(self, table: RankTable) -> None:
        text = table.to_json().decode()
        try:
            if not await self._is_written(text):
                return
        except ConflictError:
            self._dirty.set()
            return
        groups = {group.group_id: len(group.server_list) for group in table.server_group_list}
        log.info("rank table written", status=table.status, groups=groups)

    async def _is_written(self, text: str) -> bool:
        """Write the ConfigMap unless it already says so. False: nothing to do."""
        name, namespace = self._watched.config_map, self._watched.namespace
        try:
            present = await self._client.get(CONFIG_MAP, name, namespace)
        except NotFoundError:
            metadata = {"name": name, "namespace": namespace}
            await self._client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {FILE_NAME: text}})
            return True
        if (present.get("data") or {}).get(FILE_NAME) == text:
            return False
        guard = {"resourceVersion": present["metadata"]["resourceVersion"]}
        await self._client.patch(CONFIG_MAP, name, namespace, {"metadata": guard, "data": {FILE_NAME: text}})
        return True

    def _push(self, table: RankTable) -> None:
        """Tell subscribers; the first table they get is a completed one."""
        text = table.to_json().decode()
        if text != self._tables.value and (table.is_completed or self._tables.value is not None):
            self._tables.publish(text)

    def _publish_faults(self) -> None:
        message = fault_message(self._job_id, self._nodes.store.all())
        if not is_same_fault(self._faults.value, message):
            log.info("faults changed", signal=message.signalType, nodes=[info.nodeName for info in message.nodeFaultInfo])
            self._faults.publish(message)


def _live(pods: Iterable[Object]) -> list[PodFacts]:
    return [facts for pod in pods if (facts := read_pod(pod)) is not None]
