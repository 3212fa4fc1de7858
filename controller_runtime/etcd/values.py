# SPDX-License-Identifier: Apache-2.0
"""What goes into calls and comes out of them: pairs, listings, members, parts of transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from controller_runtime.etcd.proto import etcd_pb2 as pb


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A stored pair. `create_revision` of a lock's key is its fencing token. A deleted pair has no value and version 0."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int

    @classmethod
    def of(cls, pair: pb.KeyValue) -> Self:
        return cls(pair.key.decode(), pair.value, pair.create_revision, pair.mod_revision, pair.version, pair.lease)


class Listing(NamedTuple):
    """Pairs in key order and the revision they were read at: watch from `revision + 1`."""

    items: list[KeyValue]
    revision: int


class Member(NamedTuple):
    """A member of the cluster."""

    id: int
    name: str
    client_urls: list[str]


class MemberStatus(NamedTuple):
    """What one member says of itself. `leader` 0: it knows none."""

    version: str
    member_id: int
    leader: int
    db_size_bytes: int
    errors: list[str]


def prefix_end(prefix: str) -> bytes:
    """Return the first key after all keys with this prefix; `\\0` (all keys) for the empty prefix."""
    end = bytearray(prefix.encode())
    while end:
        if end[-1] < 0xFF:
            end[-1] += 1
            return bytes(end)
        end.pop()
    return b"\0"


def created_at(key: str, revision: int) -> pb.Compare:
    """Hold when `key` was created at `revision`; 0: when there is no such key."""
    return pb.Compare(key=key.encode(), target=pb.Compare.CREATE, result=pb.Compare.EQUAL, create_revision=revision)


def put_op(key: str, value: bytes, lease: int = 0) -> pb.RequestOp:
    """Store a pair."""
    return pb.RequestOp(request_put=pb.PutRequest(key=key.encode(), value=value, lease=lease))


def get_op(key: str) -> pb.RequestOp:
    """Read a pair."""
    return pb.RequestOp(request_range=pb.RangeRequest(key=key.encode()))


def delete_op(key: str) -> pb.RequestOp:
    """Remove a pair."""
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key.encode()))
