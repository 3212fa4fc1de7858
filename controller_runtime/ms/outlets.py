# SPDX-License-Identifier: Apache-2.0
"""The controller's identities and outgoing clients, one per link, for the life of the process.

Seed: controller manual, `tls_config`, `http_timeout_seconds`, `http_retries`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from controller_runtime.api.ms_config import TlsLink
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.ms.config import Settings, used_links
from controller_runtime.ms.links import identity

log = get_logger(__name__)


def load_identities(settings: Settings) -> Mapping[TlsLink, TlsIdentity | None]:
    """Identities of all links in use, None for a plain one.

    Raises:
        ConfigError: with every problem of every identity.
    """
    identities: dict[TlsLink, TlsIdentity | None] = {}
    problems: list[str] = []
    for link in used_links(settings):
        try:
            identities[link] = identity(settings.tls_items(link), link)
            if identities[link] is None:
                log.warning("link is not protected by tls", link=link.value)
        except ConfigError as error:
            problems += [f"tls_config.{link}_tls_items: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(problems)
    return identities


@dataclass
class Outlets:
    """Clients towards Servers and Coordinators."""

    servers: HttpClient
    server_tls: TlsIdentity | None
    coordinators: HttpClient
    coordinator_tls: TlsIdentity | None

    @classmethod
    def create(cls, settings: Settings, identities: Mapping[TlsLink, TlsIdentity | None]) -> Outlets:
        """Open nothing yet; links are made by the first request."""
        timeout_s, retries = float(settings.config.http_timeout_seconds), settings.config.http_retries
        server_tls, coordinator_tls = identities[TlsLink.REQUEST_SERVER], identities[TlsLink.REQUEST_COORDINATOR]
        return cls(HttpClient(server_tls, timeout_s, retries), server_tls, HttpClient(coordinator_tls, timeout_s, retries), coordinator_tls)

    async def close(self) -> None:
        """Close every link."""
        await asyncio.gather(self.servers.close(), self.coordinators.close())
