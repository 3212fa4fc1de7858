# SPDX-License-Identifier: Apache-2.0
"""Leases: time-limited ownership of keys.

etcd lets any client it accepts grant and renew leases without keys, so the transport (own CA, required SAN) protects them.
Never attach keys outside the user's role to a lease: its owner could then neither renew nor revoke it (measured).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time

from grpclib.exceptions import GRPCError

from controller_runtime.etcd.endpoints import REQUIRE_LEADER, RETRIED_STATUS, TRANSPORT_ERRORS, Endpoints, one_try_s
from controller_runtime.etcd.errors import AlreadyThereError, EtcdUnavailableError, LeaseLostError, refusal
from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import LeaseStub

_MAX_LEASE_ID = 2**63 - 1
_PAUSE_S = 0.05


class Leases:
    """The lease calls of one client."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    async def grant(self, ttl_s: int, timeout_s: float) -> int:
        """Return the id of a new lease. We choose the id, so a repeated call does not leave a second lease behind."""
        lease = secrets.randbelow(_MAX_LEASE_ID) + 1
        with contextlib.suppress(AlreadyThereError):
            await self._endpoints.call(
                LeaseStub, lambda stub: stub.LeaseGrant, pb.LeaseGrantRequest(TTL=ttl_s, ID=lease), timeout_s=timeout_s
            )
        return lease

    async def keep_alive(self, lease: int, timeout_s: float) -> int:
        """Renew a lease once, over the members in turn, and return the seconds it now has.

        Raises:
            LeaseLostError: it is gone.
            EtcdUnavailableError: no member with a leader answered in time.
            EtcdDeniedError: a key outside this user's role hangs on the lease.
        """
        end = time.monotonic() + timeout_s
        last: BaseException | None = None
        while (left_s := end - time.monotonic()) > 0:
            index = self._endpoints.current
            try:
                async with asyncio.timeout(min(left_s, one_try_s(timeout_s))):
                    ttl_s = await self._renew_at(index, lease)
            except GRPCError as error:
                if error.status not in RETRIED_STATUS:
                    raise refusal("LeaseKeepAlive", error) from error
                last = error
            except TRANSPORT_ERRORS as error:
                last = error
            else:
                if ttl_s <= 0:
                    raise LeaseLostError(f"etcd LeaseKeepAlive: lease {lease:x} is gone. Ask for a new lease.")
                return ttl_s
            self._endpoints.failed(index)
            await asyncio.sleep(_PAUSE_S)
        raise EtcdUnavailableError(f"etcd LeaseKeepAlive: no answer in time ({last}). Check that a majority of members runs.")

    async def revoke(self, lease: int, timeout_s: float) -> None:
        """End a lease and delete its keys; not an error when it is gone."""
        with contextlib.suppress(LeaseLostError):
            await self._endpoints.call(LeaseStub, lambda stub: stub.LeaseRevoke, pb.LeaseRevokeRequest(ID=lease), timeout_s=timeout_s)

    async def _renew_at(self, index: int, lease: int) -> int:
        stub = LeaseStub(self._endpoints.channel(index))
        async with stub.LeaseKeepAlive.open(metadata=REQUIRE_LEADER) as stream:
            await stream.send_message(pb.LeaseKeepAliveRequest(ID=lease), end=True)
            reply = await stream.recv_message()
        if reply is None:
            raise ConnectionResetError("stream ended without a renewal")
        return reply.TTL
