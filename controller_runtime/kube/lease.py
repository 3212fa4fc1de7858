# SPDX-License-Identifier: Apache-2.0
"""Leader election with a `coordination.k8s.io/v1` Lease, compatible with the Go libraries.

Invariants: a candidate takes a lease only after it saw the same record unchanged for the whole duration on its own
monotonic clock (wall clocks of other machines are never compared); a leader stops believing `renew_deadline_s` after the
start of its last successful renewal, which is earlier than anyone else may take over; every write carries the resource
version it was decided on; a clean stop releases the lease after the leader's work has ended, and a candidate looks often
enough to take it within two seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import datetime

from prometheus_client import Gauge

from controller_runtime.errors import KubeError, TransportError
from controller_runtime.foundation.clock import Clock, SystemClock
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import LeaseLostError, NotFoundError
from controller_runtime.kube.kind import LEASE, Object, resource_version_of
from controller_runtime.kube.lifecycle import pause

DURATION_S = 15.0
RENEW_DEADLINE_S = 10.0
RETRY_S = 2.0
LOOK_S = 1.0
"""Between two looks of a candidate at a lease that another holds."""

LEADER = Gauge("leader_election_master_status", "1 on the replica that holds the lease.", ["name"], registry=REGISTRY)

log = get_logger(__name__)


class LeaseElector:
    """One candidate for one lease. `identity` must be unique among the replicas, for example the pod name plus a random part."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration_s: float = DURATION_S,
        renew_deadline_s: float = RENEW_DEADLINE_S,
        retry_s: float = RETRY_S,
        clock: Clock | None = None,
    ) -> None:
        if not 0 < retry_s < renew_deadline_s < duration_s:
            raise ValueError(f"lease needs retry_s < renew_deadline_s < duration_s, got {retry_s}, {renew_deadline_s}, {duration_s}")
        self.identity = identity
        self._client = client
        self._namespace, self._name = namespace, name
        LEADER.labels(name).set(0)
        self._duration_s, self._renew_deadline_s, self._retry_s = duration_s, renew_deadline_s, retry_s
        self._clock = clock or SystemClock()
        self._seen: Object | None = None
        self._seen_at = 0.0
        self._leads_until: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this candidate holds the lease now, by the local clock. False as soon as a renewal is overdue."""
        return self._left_s() > 0

    def check(self) -> None:
        """Let a leader pass, for the last moment before a write: a process that was frozen learns here that it lost the lease.

        Raises:
            LeaseLostError: another replica may lead.
        """
        if not self.is_leader:
            raise LeaseLostError(f"lease {self._namespace}/{self._name}: may be held by another replica. This one starts over.")

    async def run(self, stop: asyncio.Event, lead: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead(stop_leading)` while renewing it, release it at the end.

        `stop_leading` is set when `stop` is. `lead` is cancelled when the lease is lost.

        Raises:
            LeaseLostError: renewal did not succeed in time.
        """
        if not await self._acquire(stop):
            return
        log.info("lease acquired", lease=self._name, identity=self.identity)
        LEADER.labels(self._name).set(1)
        work = asyncio.ensure_future(_await(lead, stop))
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            LEADER.labels(self._name).set(0)
            work.cancel()
            renewal.cancel()
            await asyncio.wait({work, renewal})
            await self._release()
        for task in (renewal, work):
            if not task.cancelled():
                task.result()

    async def _acquire(self, stop: asyncio.Event) -> bool:
        log.info("waiting for lease", lease=self._name, identity=self.identity)
        while not stop.is_set():
            if await self._try_hold():
                return True
            await pause(stop, min(LOOK_S, self._retry_s))
        return False

    async def _renew(self) -> None:
        """Renew until that fails for too long or the record names another holder, then raise."""
        while (left_s := self._left_s()) > 0:
            await asyncio.sleep(min(self._retry_s, left_s))
            if self._left_s() > 0 and not await self._try_hold() and self._seen is not None and _holder(self._seen) != self.identity:
                break
        self._leads_until = None
        where = f"lease {self._namespace}/{self._name}"
        raise LeaseLostError(f"{where}: not renewed within {self._renew_deadline_s:.0f} s or taken by another. This replica starts over.")

    def _left_s(self) -> float:
        return 0.0 if self._leads_until is None else self._leads_until - self._clock.monotonic()

    async def _try_hold(self) -> bool:
        """Take or renew the lease; False when it is another's or the server did not accept it in time."""
        started = self._clock.monotonic()
        is_renewal = self._leads_until is not None
        try:
            async with asyncio.timeout(self._left_s() if is_renewal else self._renew_deadline_s):
                is_written = await self._write(is_renewal)
        except (KubeError, TransportError, TimeoutError) as err:
            log.warning("lease not written", lease=self._name, err=str(err) or "timeout")
            return False
        if is_written:
            self._leads_until = started + self._renew_deadline_s
        return is_written

    async def _write(self, is_renewal: bool) -> bool:
        try:
            current = await self._client.get(LEASE, self._name, self._namespace)
        except NotFoundError:
            self._observe(await self._client.create(self._record(None)))
            return True
        self._observe(current)
        if _holder(current) != self.identity and (is_renewal or not self._is_free(current)):
            return False
        self._observe(await self._client.replace(self._record(current)))
        return True

    def _is_free(self, current: Object) -> bool:
        duration_s = float(current.get("spec", {}).get("leaseDurationSeconds") or self._duration_s)
        return not _holder(current) or self._clock.monotonic() >= self._seen_at + duration_s

    def _observe(self, lease: Object) -> None:
        if self._seen is None or resource_version_of(self._seen) != resource_version_of(lease):
            self._seen, self._seen_at = lease, self._clock.monotonic()

    def _record(self, current: Object | None) -> Object:
        now = _micro_time(self._clock.now())
        before = current.get("spec", {}) if current else {}
        is_ours = before.get("holderIdentity") == self.identity
        spec = {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._duration_s),
            "acquireTime": before.get("acquireTime") if is_ours else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if is_ours or current is None else 1),
        }
        if current is not None:
            return {**current, "spec": spec}
        metadata = {"name": self._name, "namespace": self._namespace}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}

    async def _release(self) -> None:
        """Let the next candidate take over at once. Only our own record is cleared: the version of the write guards it."""
        self._leads_until = None
        try:
            async with asyncio.timeout(self._retry_s):
                lease = await self._client.get(LEASE, self._name, self._namespace)
                if _holder(lease) != self.identity:
                    return
                freed = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time(self._clock.now())}
                await self._client.replace({**lease, "spec": {**lease["spec"], **freed}})
            log.info("lease released", lease=self._name, identity=self.identity)
        except (KubeError, TransportError, TimeoutError) as err:
            log.warning("lease not released, it expires by itself", lease=self._name, err=str(err) or "timeout")


async def _await(lead: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
    await lead(stop)


def _holder(lease: Object) -> str:
    return str(lease.get("spec", {}).get("holderIdentity") or "")


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
