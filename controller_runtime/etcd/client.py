# SPDX-License-Identifier: Apache-2.0
"""Typed calls to etcd: keys are text, values bytes, every call is bounded and survives the loss of a member.

Writes other than `txn` may be made twice without harm, so they are repeated on another member when the outcome is open.
Reads are linearizable: they see every write that was acknowledged before.
Source: etcd 3.6 API; the user is the CN of the certificate (no password, no token).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Self

from controller_runtime.etcd.auth import Auth
from controller_runtime.etcd.endpoints import Endpoints
from controller_runtime.etcd.lease import Leases
from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import ClusterStub, KVStub, MaintenanceStub
from controller_runtime.etcd.values import KeyValue, Listing, Member, MemberStatus, created_at, get_op, prefix_end, put_op
from controller_runtime.etcd.watch import WatchBatch, watch
from controller_runtime.foundation.tls import TlsIdentity

__all__ = ["EtcdClient", "KeyValue", "Listing", "Member", "MemberStatus"]

WATCH_IDLE_S = 10.0


class EtcdClient:
    """A client of one cluster under one identity. Create and use it inside the event loop; `close` it.

    `endpoints`: `https://host:port` of each member; their certificates must carry these names. `call_timeout_s` bounds each
    call, failover included. `auth` administers users and roles.

    Raises (constructor):
        ConfigError: no usable endpoint.
    """

    def __init__(self, endpoints: Sequence[str], tls: TlsIdentity, call_timeout_s: float = 5.0) -> None:
        self.endpoints = Endpoints(endpoints, tls)
        self.call_timeout_s = call_timeout_s
        self.auth = Auth(self.endpoints, call_timeout_s)
        self._leases = Leases(self.endpoints)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.endpoints.close()

    async def get(self, key: str) -> KeyValue | None:
        """Return the pair at `key`, or None."""
        reply = await self.endpoints.call(KVStub, lambda kv: kv.Range, pb.RangeRequest(key=key.encode()), timeout_s=self.call_timeout_s)
        return KeyValue.of(reply.kvs[0]) if reply.kvs else None

    async def get_prefix(self, prefix: str) -> Listing:
        """Return all pairs whose key starts with `prefix`."""
        request = pb.RangeRequest(key=prefix.encode(), range_end=prefix_end(prefix))
        reply = await self.endpoints.call(KVStub, lambda kv: kv.Range, request, timeout_s=self.call_timeout_s)
        return Listing([KeyValue.of(pair) for pair in reply.kvs], reply.header.revision)

    async def put(self, key: str, value: bytes, lease: int = 0) -> int:
        """Store a pair and return the revision."""
        request = pb.PutRequest(key=key.encode(), value=value, lease=lease)
        reply = await self.endpoints.call(KVStub, lambda kv: kv.Put, request, timeout_s=self.call_timeout_s)
        return int(reply.header.revision)

    async def delete(self, key: str) -> None:
        """Remove a pair; not an error when there is none."""
        request = pb.DeleteRangeRequest(key=key.encode())
        await self.endpoints.call(KVStub, lambda kv: kv.DeleteRange, request, timeout_s=self.call_timeout_s)

    async def txn(
        self,
        compare: Iterable[pb.Compare],
        success: Iterable[pb.RequestOp],
        failure: Iterable[pb.RequestOp] = (),
        *,
        repeatable: bool = False,
    ) -> pb.TxnResponse:
        """Run a transaction (parts: `values.created_at`, `put_op`, `get_op`, `delete_op`).

        Set `repeatable` only when running it twice does the same as once.

        Raises:
            EtcdUnavailableError: for one that is not repeatable this can mean that it ran.
        """
        request = pb.TxnRequest(compare=list(compare), success=list(success), failure=list(failure))
        return await self.endpoints.call(KVStub, lambda kv: kv.Txn, request, timeout_s=self.call_timeout_s, repeatable=repeatable)

    async def create(self, key: str, value: bytes, lease: int) -> tuple[bool, KeyValue]:
        """Store a pair under a lease only if the key is free. Returns (is ours, the pair that is there).

        Safe to repeat: a pair with our value and lease is ours, also when the answer to an earlier try was lost.
        """
        success = [put_op(key, value, lease), get_op(key)]
        reply = await self.txn([created_at(key, 0)], success, [get_op(key)], repeatable=True)
        found = KeyValue.of(reply.responses[-1].response_range.kvs[0])
        return (found.value, found.lease) == (value, lease), found

    async def lease_grant(self, ttl_s: int) -> int:
        """Return the id of a new lease. etcd may grant a longer time than asked (at least 2 s with default settings)."""
        return await self._leases.grant(ttl_s, self.call_timeout_s)

    async def lease_keep_alive(self, lease: int, timeout_s: float | None = None) -> int:
        """Renew a lease once and return the seconds it now has.

        Raises:
            LeaseLostError: it is gone.
            EtcdUnavailableError: no member with a leader answered within `timeout_s` (default: the client's).
        """
        return await self._leases.keep_alive(lease, self.call_timeout_s if timeout_s is None else timeout_s)

    async def lease_revoke(self, lease: int) -> None:
        """End a lease and delete its keys; not an error when it is gone."""
        await self._leases.revoke(lease, self.call_timeout_s)

    def watch(
        self,
        key: str,
        start_revision: int = 0,
        *,
        is_prefix: bool = True,
        idle_s: float = WATCH_IDLE_S,
        with_marks: bool = False,
    ) -> AsyncGenerator[WatchBatch, None]:
        """Yield changes under `key` from `start_revision` on, across failures; see `controller_runtime.etcd.watch`."""
        return watch(self.endpoints, key, start_revision, is_prefix=is_prefix, idle_s=idle_s, with_marks=with_marks)

    async def member_list(self) -> list[Member]:
        """Return the members as the cluster knows them."""
        request = pb.MemberListRequest(linearizable=True)
        reply = await self.endpoints.call(ClusterStub, lambda cluster: cluster.MemberList, request, timeout_s=self.call_timeout_s)
        return [Member(member.ID, member.name, list(member.clientURLs)) for member in reply.members]

    async def status(self, member: int) -> MemberStatus:
        """Ask one member (index into the endpoints) about itself; does not move on to another."""
        reply = await self.endpoints.call(
            MaintenanceStub, lambda stub: stub.Status, pb.StatusRequest(), timeout_s=self.call_timeout_s, member=member
        )
        return MemberStatus(reply.version, reply.header.member_id, reply.leader, reply.dbSize, list(reply.errors))
