# SPDX-License-Identifier: Apache-2.0
"""Who acts: this controller alone, or the one of two that holds a lock in etcd.

With backup on, roles are kept in etcd under the same lock: every write carries the lock's create revision, so a
paused former leader writes nothing. A term ends the moment the lock cannot be proved any more.
Seed: controller manual, leader and standby controllers over etcd.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from controller_runtime.api.status_files import ProcessStatus
from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.lock import LeaderLock
from controller_runtime.foundation.clock import Clock
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.ms.backup import BackupStore
from controller_runtime.ms.config import Settings
from controller_runtime.ms.status_files import parse_process_status

LOCK_KEY: Final = "/cluster/leader-lock"
DATA_KEY: Final = "/controller/node-data"
MAX_VALUE_BYTES: Final = 1_000_000
"""etcd refuses requests over 1.5 MiB. Links follow from roles and groups, so a bigger backup leaves them out."""


class Leadership(Protocol):
    """Decides when this controller may act."""

    async def acquire(self, stop: asyncio.Event) -> bool:
        """Wait until this controller leads; False when `stop` was set first."""
        ...

    async def lost(self) -> None:
        """Return when leadership has ended."""
        ...

    def may_act(self) -> bool:
        """Whether this controller leads at this moment, by its own clock."""
        ...

    def store(self) -> BackupStore:
        """Where roles are kept."""
        ...

    async def close(self) -> None:
        """Give up leadership at once and let go of the connection."""
        ...


class SoleLeader:
    """No backup: the only controller always leads."""

    def __init__(self, store: BackupStore) -> None:
        self._store = store

    async def acquire(self, stop: asyncio.Event) -> bool:
        """At once."""
        return not stop.is_set()

    async def lost(self) -> None:
        """Never."""
        await asyncio.Event().wait()

    def may_act(self) -> bool:
        """Always."""
        return True

    def store(self) -> BackupStore:
        """The file, or nothing."""
        return self._store

    async def close(self) -> None:
        """Nothing to give up."""


class EtcdBackup:
    """Roles in etcd, written under the lock."""

    def __init__(self, client: EtcdClient, lock: LeaderLock, key: str) -> None:
        self._client = client
        self._lock = lock
        self._key = key

    async def load(self) -> ProcessStatus | None:
        """The newest backup, None when there is none that can be used."""
        found = await self._client.get(self._key)
        return None if found is None else parse_process_status(found.value, f"etcd {self._key}")

    async def save(self, status: ProcessStatus) -> bool:
        """Write under the lock.

        Raises:
            LostLeadershipError: the lock is somebody else's; nothing was written.
        """
        data = _to_value(status)
        if len(data) > MAX_VALUE_BYTES:
            data = _to_value(
                ProcessStatus(server=tuple(entry.model_copy(update={"peers": (), "active_peers": ()}) for entry in status.server))
            )
        await self._lock.guarded_txn({self._key: data})
        return True


def _to_value(status: ProcessStatus) -> bytes:
    return status.model_dump_json(by_alias=True, exclude_none=True).encode()


class EtcdLeadership:
    """Leads while it holds the lock."""

    def __init__(self, client: EtcdClient, lock: LeaderLock, data_key: str) -> None:
        self._client = client
        self._lock = lock
        self._store = EtcdBackup(client, lock, data_key)

    async def acquire(self, stop: asyncio.Event) -> bool:
        """Compete for the lock until it is ours."""
        return await self._lock.acquire_or_wait(stop) and not stop.is_set()

    async def lost(self) -> None:
        """Return when the lock cannot be proved any more."""
        await self._lock.lost.wait()

    def may_act(self) -> bool:
        """While the lease cannot have ended yet."""
        return self._lock.is_leader

    def store(self) -> BackupStore:
        """The key in etcd."""
        return self._store

    async def close(self) -> None:
        """Release the lock, so that the standby takes over without waiting for the lease."""
        await self._lock.release()
        await self._client.close()


def etcd_leadership(settings: Settings, tls: TlsIdentity, clock: Clock) -> EtcdLeadership:
    """Leadership as the configuration describes it."""
    backup = settings.config.controller_backup_cfg
    prefix = f"/{settings.namespace}" if settings.namespace else ""
    client = EtcdClient([f"https://{backup.database_server_dns}:{backup.database_server_port}"], tls)
    lock = LeaderLock(
        client,
        f"{prefix}{LOCK_KEY}",
        settings.pod_ip,
        ttl_s=backup.lease_ttl_seconds,
        renew_s=None if backup.lease_renew_seconds is None else float(backup.lease_renew_seconds),
        clock=clock,
    )
    return EtcdLeadership(client, lock, f"{prefix}{DATA_KEY}")
