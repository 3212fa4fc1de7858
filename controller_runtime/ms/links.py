# SPDX-License-Identifier: Apache-2.0
"""The controller's outgoing links: who must be at the other end, where, and how to dial it.

Peers are dialled by pod address, so their certificates are checked for these names instead of the address.
Seed: controller manual, `tls_config`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from controller_runtime.api.ms_config import TlsItems, TlsLink
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity

COORDINATOR_SANS: Final = ("ms-coordinator.*",)
CLUSTERD_SANS: Final = ("clusterd.*",)

SERVER_UNREACHABLE: Final = "[HttpClient] Failed to send http request."
"""Operators search for this text. Seed: controller manual, table of error texts."""


def tls_files(items: TlsItems) -> TlsFiles:
    """The files of an identity; a password file that does not exist means that the key is not encrypted."""
    password = Path(items.tls_passwd)
    return TlsFiles(
        ca=Path(items.ca_cert),
        cert=Path(items.tls_cert),
        key=Path(items.tls_key),
        crl=Path(items.tls_crl) if items.tls_crl else None,
        password=password if password.exists() else None,
    )


def identity(items: TlsItems | None, link: TlsLink) -> TlsIdentity | None:
    """Load the identity of a link, None when the link is plain.

    Raises:
        ConfigError: with every problem of its files.
    """
    return None if items is None else TlsIdentity(tls_files(items), name=link.value)


def base_url(ip: str, port: int, tls: TlsIdentity | None) -> str:
    """`https://10.0.0.7:1026`; an IPv6 address is bracketed."""
    host = f"[{ip}]" if ":" in ip else ip
    return f"{'http' if tls is None else 'https'}://{host}:{port}"
