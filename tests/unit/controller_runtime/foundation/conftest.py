# SPDX-License-Identifier: Apache-2.0
"""One CA with a server and a client identity on disk, as a pod would mount them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from tests.support.pki import Authority, Leaf, publish_crl, write_identity


@dataclass
class Site:
    """The CA, both leaves and their directories."""

    authority: Authority
    server_leaf: Leaf
    client_leaf: Leaf
    server_dir: Path
    client_dir: Path

    def server(self) -> TlsIdentity:
        return TlsIdentity(TlsFiles.in_directory(self.server_dir))

    def client(self) -> TlsIdentity:
        return TlsIdentity(TlsFiles.in_directory(self.client_dir))

    def publish(self, *revoked: Leaf) -> None:
        """Publish the revocation list to both sides."""
        publish_crl(self.server_dir, self.authority, revoked)
        publish_crl(self.client_dir, self.authority, revoked)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    authority = Authority("pd")
    server_leaf = authority.issue("server", sans=["mindie-server.mindie"])
    client_leaf = authority.issue("client", sans=["ms-controller.mindie"])
    return Site(
        authority,
        server_leaf,
        client_leaf,
        write_identity(tmp_path / "server", authority, server_leaf),
        write_identity(tmp_path / "client", authority, client_leaf),
    )
