# SPDX-License-Identifier: Apache-2.0
"""Keep the backup equal to the registry, also across failures of the store.

Invariant: the writer waits for a change only after the newest state was saved. What could not be saved is tried again.
Seed: controller manual, `process_manager.to_file`, `cluster_synchronization_seconds`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from controller_runtime.errors import EtcdError
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.log import get_logger
from controller_runtime.ms.backup import BackupStore
from controller_runtime.ms.server_registry import ServerRegistry
from controller_runtime.ms.status_files import process_status

RETRY_CAP_S: Final = 30.0

log = get_logger(__name__)


async def save_backup(registry: ServerRegistry, store: BackupStore) -> bool:
    """Save the state as of now once; False when that failed."""
    try:
        return await store.save(process_status(registry))
    except EtcdError as error:
        log.error("backup not written", err=error)
        return False


async def keep_backup(registry: ServerRegistry, store: BackupStore, period_s: float) -> None:
    """Save at once and after every change, at most once a period, until cancelled."""
    backoff = Backoff(period_s, max(period_s, RETRY_CAP_S))
    while True:
        version = registry.wiring_version
        if not await save_backup(registry, store):
            await asyncio.sleep(backoff.next_s())
            continue
        backoff.reset()
        await asyncio.sleep(period_s)
        await registry.changed_since(version)
