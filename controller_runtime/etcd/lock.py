# SPDX-License-Identifier: Apache-2.0
"""Leadership by a key under a lease, with a fence around every write of the leader.

Invariants
- We are leader only until (time the last acknowledged renewal was *sent*) + TTL - margin on our own monotonic clock,
  whatever etcd or the network does: that is before etcd can give the lock to somebody else.
- A write of the leader is a transaction guarded by the creation revision of the lock's key. A leader that was paused and
  does not know yet that it lost cannot write: its guard names a key that was deleted.
- A clean stop revokes the lease, so a standby takes over in milliseconds.
Seed: controller manual, leader lock on etcd (20 s lease, value is the pod IP, `[TryRenewLease]Renewed lease`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

from controller_runtime.errors import EtcdError, LostLeadershipError
from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.errors import EtcdDeniedError, LeaseLostError
from controller_runtime.etcd.values import created_at, delete_op, get_op, put_op
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.clock import Clock, SystemClock
from controller_runtime.foundation.log import get_logger

RENEWED_LEASE = "[TryRenewLease]Renewed lease"
"""Operators find the leader by this text in the log."""

MARGIN_S = 1.0
"""How long before the lease can end we stop being leader; covers the drift between two clocks within one TTL."""
RETRY_AFTER_FAILED_RENEWAL_S = 1.0

log = get_logger(__name__)


def default_renew_s(ttl_s: float) -> float:
    """Return the manual's renewal interval: half the TTL, within 1..10 s."""
    return min(10.0, max(1.0, ttl_s / 2))


class LeaderLock:
    """One candidate for the lock at `key`.

    `value` is what others see as the holder (our pod IP). `ttl_s` at least 2 (etcd grants no less). `renew_s` None takes
    `default_renew_s`. `lost` is set while we are not leader. Use from one event loop; `release` before closing the client.
    """

    def __init__(
        self,
        client: EtcdClient,
        key: str,
        value: str,
        ttl_s: int = 20,
        renew_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        if ttl_s <= MARGIN_S:
            raise ValueError(f"ttl_s is {ttl_s}, it must be above the margin of {MARGIN_S} s")
        self.key = key
        self.value = value
        self.ttl_s = ttl_s
        self.renew_s = default_renew_s(ttl_s) if renew_s is None else renew_s
        self.lost = asyncio.Event()
        self.lost.set()
        self._client = client
        self._clock = clock or SystemClock()
        self._lease = 0
        self._token = 0
        self._good_until = 0.0
        self._renewing: asyncio.Task[None] | None = None
        self._holder: str | None = None
        self._complaint: str | None = None

    @property
    def is_leader(self) -> bool:
        """True while we may act as leader, judged by our own clock."""
        return not self.lost.is_set() and self._clock.monotonic() < self._good_until

    @property
    def fencing_token(self) -> int:
        """Creation revision of our lock key; grows with each election."""
        return self._token

    @property
    def holder(self) -> str | None:
        """The value last seen at the key: who leads, as far as we know."""
        return self._holder

    async def acquire_or_wait(self, stop: asyncio.Event) -> bool:
        """Wait as standby until we are leader (True) or `stop` is set (False).

        etcd being away or refusing us is waited out: it is logged once per cause and tried again.
        """
        await self._end_renewing()
        attempt = asyncio.create_task(self._campaign())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({attempt, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            attempt.cancel()
            await asyncio.gather(attempt, stopping, return_exceptions=True)
            if self.lost.is_set():
                await self.release()
        if not attempt.cancelled():
            attempt.result()
        return not self.lost.is_set()

    async def guarded_txn(self, puts: Mapping[str, bytes], deletes: Iterable[str] = ()) -> int:
        """Write all pairs (and remove `deletes`) in one transaction, as leader. Returns the revision.

        Raises:
            LostLeadershipError: we are leader no more; nothing was written.
            EtcdUnavailableError: the outcome is unknown.
        """
        if not self.is_leader:
            raise LostLeadershipError(f"etcd lock {self.key}: our lease is over. Become leader again before writing.")
        changes = [*(put_op(key, value) for key, value in puts.items()), *(delete_op(key) for key in deletes)]
        reply = await self._client.txn([created_at(self.key, self._token)], changes, repeatable=True)
        if not reply.succeeded:
            self._lose("another leader was elected")
            raise LostLeadershipError(f"etcd lock {self.key}: no longer ours (token {self._token}). Nothing was written.")
        return int(reply.header.revision)

    async def release(self) -> None:
        """Give the lock up so that a standby takes over at once. Bounded by one call; the lease ends by itself if that fails."""
        await self._end_renewing()
        was_leader = not self.lost.is_set()
        self.lost.set()
        if self._lease:
            try:
                await self._client.lease_revoke(self._lease)
            except EtcdError as error:
                log.warning("lease not revoked, it ends by itself", key=self.key, ttl_s=self.ttl_s, err=error)
            self._lease = 0
        if was_leader:
            log.info("leadership released", key=self.key, value=self.value)

    async def _campaign(self) -> None:
        backoff = Backoff(0.2, 5.0)
        while True:
            try:
                if await self._try_once():
                    return
                await self._wait_until_free()
                backoff.reset()
            except LeaseLostError:
                self._lease = 0
            except EtcdError as error:
                self._complain(error)
                await asyncio.sleep(backoff.next_s())

    async def _try_once(self) -> bool:
        """Take the lock if it is free or already ours by a lease of an earlier try whose answer was lost."""
        current = await self._client.get(self.key)
        if current is not None and current.lease != self._lease:
            self._note_holder(current.value.decode(errors="replace"))
            await self._drop_lease()
            return False
        asked_at = self._clock.monotonic()
        if self._lease:
            ttl_s = await self._client.lease_keep_alive(self._lease)
        else:
            self._lease, ttl_s = await self._client.lease_grant(self.ttl_s), self.ttl_s
        is_ours, found = await self._client.create(self.key, self.value.encode(), self._lease)
        self._note_holder(found.value.decode(errors="replace"))
        if not is_ours:
            await self._drop_lease()
            return False
        self._complaint = None
        self._token = found.create_revision
        self._good_until = asked_at + min(ttl_s, self.ttl_s) - MARGIN_S
        self.lost.clear()
        log.info("leadership acquired", key=self.key, value=self.value, token=self._token, lease=f"{self._lease:x}")
        self._renewing = asyncio.create_task(self._renew_until_lost(), name=f"renew {self.key}")
        self._renewing.add_done_callback(self._renewing_ended)
        return True

    async def _drop_lease(self) -> None:
        lease, self._lease = self._lease, 0
        if lease:
            await self._client.lease_revoke(lease)

    async def _wait_until_free(self) -> None:
        """Return when the key may be free. Reads once more at the watch's start: the key can go in between."""
        listing = await self._client.get_prefix(self.key)
        if all(item.key != self.key for item in listing.items):
            return
        changes = self._client.watch(self.key, listing.revision + 1, is_prefix=False)
        async with contextlib.aclosing(changes):
            async for batch in changes:
                for event in batch.events:
                    if event.value is None:
                        return
                    self._note_holder(event.value.decode(errors="replace"))

    async def _renew_until_lost(self) -> None:
        """Renew at each interval, more often after a failure, until the right ends; then say why."""
        pause_s = self.renew_s
        try:
            while True:
                await asyncio.sleep(max(0.0, min(pause_s, self._good_until - self._clock.monotonic())))
                left_s = self._good_until - self._clock.monotonic()
                if left_s <= 0:
                    return self._lose("no renewal in time")
                pause_s = await self._renew(left_s)
        except (LeaseLostError, EtcdDeniedError, LostLeadershipError) as error:
            self._lose(str(error))

    async def _renew(self, left_s: float) -> float:
        """Renew once and return how long to wait for the next time."""
        asked_at = self._clock.monotonic()
        try:
            ttl_s = await self._client.lease_keep_alive(self._lease, timeout_s=min(self._client.call_timeout_s, left_s))
            self._good_until = asked_at + min(ttl_s, self.ttl_s) - MARGIN_S
            await self._check_still_ours()
        except (LeaseLostError, EtcdDeniedError, LostLeadershipError):
            raise
        except EtcdError as error:
            log.warning("lease renewal failed", key=self.key, left_s=round(self._good_until - self._clock.monotonic(), 1), err=error)
            return min(RETRY_AFTER_FAILED_RENEWAL_S, self.renew_s)
        log.info(RENEWED_LEASE, key=self.key, lease=f"{self._lease:x}", value=self.value)
        return self.renew_s

    async def _check_still_ours(self) -> None:
        """The lease lives on when somebody deletes the key alone; then another candidate may lead."""
        reply = await self._client.txn([created_at(self.key, self._token)], [], [get_op(self.key)], repeatable=True)
        if not reply.succeeded:
            raise LostLeadershipError("the lock's key was deleted")

    def _renewing_ended(self, task: asyncio.Task[None]) -> None:
        """Whatever ended the renewals, other than our own wish, ends leadership."""
        if self._renewing is task:
            self._lose("the renewals ended")

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.lost.set()
            log.error("leadership lost", key=self.key, value=self.value, token=self._token, reason=reason)

    def _note_holder(self, holder: str) -> None:
        if holder != self._holder:
            self._holder = holder
            log.info("leader seen", key=self.key, holder=holder)

    def _complain(self, error: EtcdError) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("cannot campaign, trying again", key=self.key, err=error)

    async def _end_renewing(self) -> None:
        task, self._renewing = self._renewing, None
        if task is None:
            return
        task.cancel()
        [outcome] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(outcome, Exception):
            log.error("lease renewal broke", key=self.key, exc_info=outcome)
