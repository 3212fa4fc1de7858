# SPDX-License-Identifier: Apache-2.0
"""The client against one real member: calls, leases, refusals, reload."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.errors import CompactedError, EtcdUnavailableError, LeaseLostError
from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import KVStub
from controller_runtime.etcd.values import created_at, get_op, put_op
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from tests.support.etcd_server import CLIENT_SAN, EtcdCluster
from tests.support.eventually import eventually
from tests.support.pki import publish_crl, write_identity

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(Path(tmp_path_factory.mktemp("etcd"))) as cluster:
        yield cluster


@pytest.fixture
async def client(etcd: EtcdCluster) -> AsyncIterator[EtcdClient]:
    async with EtcdClient(etcd.endpoints, etcd.identity("tester")) as made:
        yield made


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}/"


async def test_what_is_put_is_read_listed_and_deleted(client: EtcdClient, prefix: str) -> None:
    first = await client.put(prefix + "a", b"1")
    await client.put(prefix + "b", b"2")

    pair = await client.get(prefix + "a")
    assert pair is not None
    assert (pair.key, pair.value, pair.create_revision, pair.version, pair.lease) == (prefix + "a", b"1", first, 1, 0)
    listing = await client.get_prefix(prefix)
    assert [item.value for item in listing.items] == [b"1", b"2"]
    assert listing.revision > first

    await client.delete(prefix + "a")
    await client.delete(prefix + "a")
    assert await client.get(prefix + "a") is None


async def test_a_transaction_takes_the_branch_its_comparison_says(client: EtcdClient, prefix: str) -> None:
    key = prefix + "k"
    assert (await client.txn([created_at(key, 0)], [put_op(key, b"new")])).succeeded

    reply = await client.txn([created_at(key, 0)], [put_op(key, b"again")], [get_op(key)])

    assert not reply.succeeded
    assert reply.responses[0].response_range.kvs[0].value == b"new"


async def test_create_recognises_its_own_earlier_success(client: EtcdClient, prefix: str) -> None:
    key = prefix + "k"
    mine, other = await client.lease_grant(30), await client.lease_grant(30)

    assert (await client.create(key, b"me", mine))[0]
    assert (await client.create(key, b"me", mine))[0]
    is_ours, found = await client.create(key, b"you", other)
    assert not is_ours
    assert found.value == b"me"


async def test_a_revoked_lease_takes_its_keys_along_and_cannot_be_renewed(client: EtcdClient, prefix: str) -> None:
    lease = await client.lease_grant(30)
    await client.put(prefix + "k", b"v", lease)
    assert await client.lease_keep_alive(lease) == 30

    await client.lease_revoke(lease)
    await client.lease_revoke(lease)

    assert await client.get(prefix + "k") is None
    with pytest.raises(LeaseLostError):
        await client.lease_keep_alive(lease)
    with pytest.raises(LeaseLostError):
        await client.put(prefix + "k", b"v", lease)


async def test_members_and_their_state_are_told(client: EtcdClient, etcd: EtcdCluster) -> None:
    [member] = await client.member_list()
    status = await client.status(0)

    assert (member.name, member.client_urls) == ("etcd-0", etcd.endpoints)
    assert status.leader == status.member_id == member.id
    assert status.version.startswith("3.6.")
    assert status.errors == []


async def test_a_watch_delivers_puts_and_deletes_in_order(client: EtcdClient, prefix: str) -> None:
    start = await client.put(prefix + "a", b"1")
    await client.put(prefix + "a", b"2")
    await client.delete(prefix + "a")
    await client.put(prefix + "b", b"3")

    seen: list[tuple[str, bytes | None]] = []
    changes = client.watch(prefix, start)
    async for batch in changes:
        seen += [(event.key.removeprefix(prefix), event.value) for event in batch.events]
        if len(seen) >= 4:
            break
    await changes.aclose()

    assert seen == [("a", b"1"), ("a", b"2"), ("a", None), ("b", b"3")]


async def test_a_watch_from_compacted_history_says_so(client: EtcdClient, prefix: str) -> None:
    start = await client.put(prefix + "a", b"1")
    latest = await client.put(prefix + "a", b"2")
    await client.endpoints.call(KVStub, lambda kv: kv.Compact, pb.CompactionRequest(revision=latest), timeout_s=5)

    changes = client.watch(prefix, start)
    with pytest.raises(CompactedError) as raised:
        await anext(changes)
    assert raised.value.compact_revision == latest


async def test_a_quiet_watch_asks_for_a_mark_and_goes_on(client: EtcdClient, prefix: str) -> None:
    changes = client.watch(prefix, idle_s=0.4, with_marks=True)

    mark = await anext(changes)
    revision = await client.put(prefix + "a", b"1")
    while not (batch := await anext(changes)).events:
        pass
    await changes.aclose()

    assert mark.events == ()
    assert batch.events[0].revision == revision
    assert client.endpoints.failovers == 0


async def test_a_revoked_client_gets_nowhere_until_it_has_a_new_certificate(etcd: EtcdCluster) -> None:
    directory = etcd.identity_directory("leaver")
    async with EtcdClient(etcd.endpoints, etcd.identity("leaver"), call_timeout_s=10) as client:
        await client.put("/revocation", b"before")
    etcd.revoke(["leaver"])
    try:
        async with EtcdClient(etcd.endpoints, etcd.identity("leaver"), call_timeout_s=1) as client:
            with pytest.raises(EtcdUnavailableError, match="trusts us"):
                await client.put("/revocation", b"after")
        assert "revoked" in etcd.log_of(0)

        write_identity(directory, etcd.authority, etcd.authority.issue("leaver", sans=[CLIENT_SAN], usages=["client"]))
        async with EtcdClient(etcd.endpoints, etcd.identity("leaver"), call_timeout_s=10) as client:
            await client.put("/revocation", b"again")
    finally:
        etcd.revoke([])


async def test_a_revoked_server_is_refused_and_named(etcd: EtcdCluster, tmp_path: Path) -> None:
    server = etcd.authority.issue("other", sans=[CLIENT_SAN], usages=["client"])
    directory = write_identity(tmp_path / "strict", etcd.authority, server)
    publish_crl(directory, etcd.authority, [etcd.server_leaf])

    async with EtcdClient(etcd.endpoints, TlsIdentity(TlsFiles.in_directory(directory)), call_timeout_s=1) as client:
        with pytest.raises(EtcdUnavailableError, match=r"127\.0\.0\.1:\d+ TLS failed: certificate revoked"):
            await client.get("/x")


async def test_after_a_tls_reload_calls_and_watches_go_on(etcd: EtcdCluster, prefix: str) -> None:
    tls = etcd.identity("rotating")
    async with EtcdClient(etcd.endpoints, tls, call_timeout_s=10) as client:
        start = await client.put(prefix + "a", b"1")
        changes = client.watch(prefix, start)
        assert (await anext(changes)).events[0].value == b"1"

        publish_crl(etcd.identity_directory("rotating"), etcd.authority)
        assert tls.reload_if_changed()
        await client.put(prefix + "a", b"2")

        assert (await anext(changes)).events[0].value == b"2"
        await changes.aclose()


async def test_after_a_tls_reload_an_open_link_to_a_revoked_server_is_not_used_on(etcd: EtcdCluster) -> None:
    tls = etcd.identity("strict")
    async with EtcdClient(etcd.endpoints, tls, call_timeout_s=1) as client:
        await client.get("/x")

        publish_crl(etcd.identity_directory("strict"), etcd.authority, [etcd.server_leaf])
        assert tls.reload_if_changed()

        with pytest.raises(EtcdUnavailableError, match="certificate revoked"):
            await client.get("/x")


async def test_an_ended_lease_deletes_its_key_by_itself(client: EtcdClient, prefix: str) -> None:
    await client.put(prefix + "k", b"v", await client.lease_grant(2))

    async def is_gone() -> bool:
        return await client.get(prefix + "k") is None

    await eventually(is_gone, "the lease ends", timeout_s=30)
