# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller_runtime.errors import ConfigError
from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.endpoints import Endpoints
from controller_runtime.etcd.errors import EtcdUnavailableError
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from tests.support.pki import Authority, write_identity


@pytest.fixture
def authority() -> Authority:
    return Authority("etcd")


@pytest.fixture
def tls(tmp_path: Path, authority: Authority) -> TlsIdentity:
    directory = write_identity(tmp_path / "client", authority, authority.issue("tester", sans=["etcd.client.local"]))
    return TlsIdentity(TlsFiles.in_directory(directory))


@pytest.mark.parametrize("endpoints", [[], ["http://127.0.0.1:1"], ["127.0.0.1"], ["https://"], ["https://x:y"], ["https://:1"]])
async def test_endpoints_that_cannot_work_are_refused(tls: TlsIdentity, endpoints: list[str]) -> None:
    with pytest.raises(ConfigError, match="etcd endpoint"):
        Endpoints(endpoints, tls)


async def test_endpoints_are_hosts_and_ports(tls: TlsIdentity) -> None:
    found = Endpoints(["https://etcd-0.etcd.ns.svc:2379", "etcd-1:2379", "https://[::1]:1/"], tls)

    assert found.addresses == [("etcd-0.etcd.ns.svc", 2379), ("etcd-1", 2379), ("::1", 1)]


async def test_a_server_whose_certificate_lacks_the_dialled_name_is_refused(tls: TlsIdentity, tmp_path: Path, authority: Authority) -> None:
    directory = write_identity(tmp_path / "server", authority, authority.issue("etcd-server", sans=["elsewhere"], ips=["127.0.0.9"]))
    context = TlsIdentity(TlsFiles.in_directory(directory)).server_context_for(["h2"])
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with EtcdClient([f"https://127.0.0.1:{port}"], tls, call_timeout_s=1) as client:
            with pytest.raises(EtcdUnavailableError, match="TLS failed: ip address mismatch"):
                await client.get("/x")


async def test_members_that_are_away_are_named_with_the_reason(tls: TlsIdentity, unused_tcp_port: int) -> None:
    async with EtcdClient([f"https://127.0.0.1:{unused_tcp_port}"], tls, call_timeout_s=0.6) as client:
        with pytest.raises(EtcdUnavailableError, match=rf"etcd Range: 127\.0\.0\.1:{unused_tcp_port} .*Connect call failed"):
            await client.get("/x")
        assert client.endpoints.failovers >= 1
