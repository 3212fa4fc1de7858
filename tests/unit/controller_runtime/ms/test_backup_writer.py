# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from controller_runtime.api.status_files import ProcessStatus
from controller_runtime.errors import EtcdError
from controller_runtime.ms.backup_writer import keep_backup
from tests.support.eventually import eventually
from tests.support.ms_builders import cluster
from tests.support.ms_peers import running


class FailingStore:
    """Fails in turn with an error and with False before it works."""

    def __init__(self) -> None:
        self.outcomes: list[bool | EtcdError] = [EtcdError("etcd is away"), False]
        self.saved: list[ProcessStatus] = []

    async def load(self) -> ProcessStatus | None:
        return None

    async def save(self, status: ProcessStatus) -> bool:
        outcome = self.outcomes.pop(0) if self.outcomes else True
        if isinstance(outcome, EtcdError):
            raise outcome
        if outcome:
            self.saved.append(status)
        return outcome


async def test_what_could_not_be_saved_is_saved_later_without_another_change() -> None:
    registry, _, _ = cluster(1, 1)
    store = FailingStore()

    async with running(keep_backup(registry, store, 0.01)):
        await eventually(lambda: len(store.saved) == 1, "the state was saved after two failures")


async def test_a_change_is_saved_and_nothing_without_one() -> None:
    registry, [prefill], _ = cluster(1, 1)
    store = FailingStore()
    store.outcomes = []

    async with running(keep_backup(registry, store, 0.01)):
        await eventually(lambda: len(store.saved) == 1, "the first state")
        registry.mark_faulty([prefill])
        await eventually(lambda: len(store.saved) == 2, "the change")

    assert store.saved[1].server[0].is_faulty
