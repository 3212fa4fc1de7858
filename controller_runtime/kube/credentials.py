# SPDX-License-Identifier: Apache-2.0
"""How a client proves who it is: fixed, from files that are rotated, or from an exec plugin.

Invariants: files are read again every minute and after a 401; concurrent callers share one refresh; nothing secret is
in a `repr`, a message or an argument vector.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import orjson

from controller_runtime.errors import ConfigError, TransportError
from controller_runtime.foundation.clock import Clock, SystemClock

REREAD_S = 60.0
"""Projected service account tokens are rotated at 80% of their life, which is at least ten minutes."""
EXEC_TIMEOUT_S = 60.0
EXEC_API_VERSION = "client.authentication.k8s.io/v1"
EXPIRY_MARGIN = timedelta(seconds=10)


@dataclass(frozen=True)
class Credential:
    """A bearer token, a client certificate with its key (PEM text), both, or neither."""

    token: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)


class CredentialSource(Protocol):
    """Hands out the current credential; `refused` reports one that the server did not accept."""

    async def current(self) -> Credential: ...

    def refused(self, credential: Credential) -> None: ...


class StaticCredential:
    """Never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """The credential given at construction."""
        return self._credential

    def refused(self, credential: Credential) -> None:
        """Nothing to read again."""


@dataclass(frozen=True)
class CredentialFiles:
    """Where a rotating credential lives; each file is optional."""

    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class FileCredential:
    """Reads `files` again every `REREAD_S` and after a refusal. What no file holds comes from `rest`.

    A file that cannot be read keeps the last good credential in use; without one it is a `ConfigError`.
    """

    def __init__(self, files: CredentialFiles, rest: Credential | None = None, clock: Clock | None = None) -> None:
        self._files = files
        self._rest = rest or Credential()
        self._clock = clock or SystemClock()
        self._credential: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        """The credential as last read."""
        now = self._clock.monotonic()
        if self._credential is None or now - self._read_at >= REREAD_S:
            try:
                self._credential = await asyncio.to_thread(self._read)
            except OSError as err:
                if self._credential is None:
                    raise ConfigError(
                        f"{err.filename}: cannot read the credential ({err.strerror}). Mount it or correct the path."
                    ) from err
            self._read_at = now
        return self._credential

    def refused(self, credential: Credential) -> None:
        """Read again at the next call, unless that happened already."""
        if credential == self._credential:
            self._read_at = -REREAD_S

    def _read(self) -> Credential:
        files, rest = self._files, self._rest
        return Credential(
            token=files.token.read_text().strip() if files.token else rest.token,
            certificate_pem=files.certificate.read_text() if files.certificate else rest.certificate_pem,
            key_pem=files.key.read_text() if files.key else rest.key_pem,
        )


@dataclass(frozen=True)
class ExecPlugin:
    """`users[].user.exec` of a kubeconfig. `environment` is added to ours; `cluster` is sent when `provideClusterInfo` is set."""

    command: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    cluster: Mapping[str, object] | None = None


class ExecCredential:
    """Runs a plugin that prints an `ExecCredential` of version v1, and again when that expired or was refused."""

    def __init__(self, plugin: ExecPlugin, clock: Clock | None = None) -> None:
        self._plugin = plugin
        self._clock = clock or SystemClock()
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        self._refresh = asyncio.Lock()

    async def current(self) -> Credential:
        """The credential of the last run.

        Raises:
            ConfigError: the plugin is missing, fails, or answers something else.
            TransportError: it took longer than `EXEC_TIMEOUT_S`.
        """
        async with self._refresh:
            if self._credential is None or self._is_expired():
                self._credential, self._expires = self._parse(await self._run())
            return self._credential

    def refused(self, credential: Credential) -> None:
        """Run again at the next call, unless that happened already."""
        if credential == self._credential:
            self._credential = None

    def _is_expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires - EXPIRY_MARGIN

    async def _run(self) -> bytes:
        plugin = self._plugin
        spec: dict[str, object] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        info = orjson.dumps({"apiVersion": EXEC_API_VERSION, "kind": "ExecCredential", "spec": spec}).decode()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": info},
            )
        except OSError as err:
            hint = f" {plugin.install_hint}" if plugin.install_hint else " Install it or correct the kubeconfig."
            raise ConfigError(f"credential plugin {plugin.command}: cannot be started ({err.strerror}).{hint}") from err
        try:
            async with asyncio.timeout(EXEC_TIMEOUT_S):
                output, _ = await process.communicate()
        except TimeoutError as err:
            raise TransportError(f"credential plugin {plugin.command}: no answer within {EXEC_TIMEOUT_S:.0f} s.") from err
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise ConfigError(f"credential plugin {plugin.command}: exit code {process.returncode}. Run it by hand to see why.")
        return output

    def _parse(self, output: bytes) -> tuple[Credential, datetime | None]:
        try:
            answer = orjson.loads(output)
            status = answer["status"] if answer["apiVersion"] == EXEC_API_VERSION else {}
            credential = Credential(status.get("token"), status.get("clientCertificateData"), status.get("clientKeyData"))
            expires = datetime.fromisoformat(status["expirationTimestamp"]) if status.get("expirationTimestamp") else None
        except (ValueError, KeyError, TypeError, AttributeError):
            credential, expires = Credential(), None
        if credential == Credential():
            raise ConfigError(
                f"credential plugin {self._plugin.command}: its output is not an ExecCredential of {EXEC_API_VERSION} with a token"
                " or certificate. Update the plugin."
            )
        return credential, expires
