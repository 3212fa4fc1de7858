# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS 1.3 with revocation lists, reloaded while the process runs.

Invariants
- Both sides show a certificate of the trusted CA, on every link; a peer on the revocation list is refused; so is every peer
  once the list has expired.
- A reload replaces certificate, key, CA and list as a whole or not at all: a bad set keeps the previous one, logs one line
  and counts in `tls_reloads_total`.
- No session tickets: a resumed session would skip the check of the client's certificate.

How a reload reaches a running server: the listener keeps one stable front context whose `sni_callback` swaps in the current
inner context at each handshake (it is called also for clients that send no name). Verify mode, flags and protocol version
are taken from the front, trust store and chain from the inner one, so both carry the same settings.
Seed: controller manual, `tls_config`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from prometheus_client import Counter, Gauge

from controller_runtime.errors import ConfigError
from controller_runtime.foundation.clock import Clock, SystemClock
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.foundation.tls_handshake import checking_identity, peer_sans, reporting_refusals
from controller_runtime.foundation.tls_material import TlsFiles, TlsMaterial, check_material, digest_of, read_files

__all__ = ["TlsFiles", "TlsIdentity", "peer_sans"]

CIPHERS = "DEFAULT:@SECLEVEL=2"
"""TLS 1.3 suites are OpenSSL's own; the level refuses peers with RSA keys under 2048 bits and weak signatures."""

log = get_logger(__name__)

_not_after = Gauge("tls_certificate_not_after_timestamp_seconds", "End of our own certificate.", ["identity"], registry=REGISTRY)
_next_update = Gauge("crl_next_update_timestamp_seconds", "When the list ends and all peers are refused.", ["identity"], registry=REGISTRY)
_reloads = Counter("tls_reloads_total", "Tries to take over changed TLS files.", ["identity", "result"], registry=REGISTRY)


class TlsIdentity:
    """One identity of this process and the contexts made from it. Use from one event loop.

    `generation` starts at 1 and grows by one with each reload. `name` labels logs and metrics; by default it is the name of
    the directory that holds the certificate.

    Raises (constructor):
        ConfigError: the files are missing or wrong; every problem is listed.
    """

    def __init__(self, files: TlsFiles, name: str | None = None, clock: Clock | None = None) -> None:
        self.files = files
        self.name = name or files.cert.parent.name
        self.generation = 0
        self._clock = clock or SystemClock()
        self._contexts: dict[tuple[object, ...], ssl.SSLContext] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._failure: str | None = None
        self._material = check_material(files, read_files(files), self._clock.now())
        self._install(self._material)
        self.server_context = self.server_context_for(())

    @property
    def crl_next_update(self) -> datetime | None:
        """When the revocation list ends; None without one."""
        return self._material.crl_next_update

    @property
    def certificate_not_after(self) -> datetime:
        """When our own certificate ends."""
        return self._material.certificate_not_after

    def server_context_for(self, alpn: Sequence[str]) -> ssl.SSLContext:
        """Return a stable listener context that offers these application protocols (`h2` for gRPC); follows reloads."""
        front = self._blank(ssl.PROTOCOL_TLS_SERVER)
        front.sslobject_class = reporting_refusals(self.name)

        def swap(connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
            connection.context = self._inner(tuple(alpn))

        front.sni_callback = swap
        return front

    def client_context(
        self, alpn: Sequence[str] = (), *, expect_sans: Collection[str] | None = None, check_hostname: bool = False
    ) -> ssl.SSLContext:
        """Return the context of the current generation; the same object until the next reload.

        `expect_sans`: the peer must carry one of these DNS names (patterns allowed), else the handshake fails. For asyncio:
        the check hangs on `wrap_bio`, which a blocking `wrap_socket` does not use.
        `check_hostname`: the peer must carry the name that was dialled; off by default because pods are dialled by address.
        """
        sans = None if expect_sans is None else frozenset(expect_sans)
        key = ("client", tuple(alpn), sans, check_hostname)
        if key not in self._contexts:
            context = self._loaded(ssl.PROTOCOL_TLS_CLIENT, alpn)
            context.check_hostname = check_hostname
            if sans is not None:
                context.sslobject_class = checking_identity(sans)
            self._contexts[key] = context
        return self._contexts[key]

    def refusal_of(self, peer: ssl.SSLObject | None) -> str | None:
        """Say why an open link must be cut under the current files, or None when it may stay."""
        certificate = None if peer is None else peer.getpeercert(binary_form=True)
        return None if certificate is None else self._material.refusal_of(certificate, self._clock.now())

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each reload, in the event loop. Returns the function that ends that."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def reload_if_changed(self) -> bool:
        """Take over changed files. True when a new generation is in use. Never raises for bad files: keeps the old ones."""
        return self._take_over(self._changed())

    async def watch(self, period_s: float = 5.0) -> None:
        """Reload whenever the files change, until cancelled. Reads the files outside the event loop."""
        while True:
            await asyncio.sleep(period_s)
            self._take_over(await asyncio.to_thread(self._changed))

    def _changed(self) -> TlsMaterial | ConfigError | None:
        try:
            content = read_files(self.files)
            if digest_of(content) == self._material.digest:
                return None
            return check_material(self.files, content, self._clock.now())
        except ConfigError as error:
            return error

    def _take_over(self, found: TlsMaterial | ConfigError | None) -> bool:
        if isinstance(found, TlsMaterial):
            try:
                self._install(found)
            except ConfigError as error:
                found = error
        if found is None:
            self._failure = None
            return False
        if isinstance(found, ConfigError):
            self._keep_old(found)
            return False
        _reloads.labels(self.name, "success").inc()
        log.info("tls files reloaded", identity=self.name, generation=self.generation, crl_next_update=self.crl_next_update)
        for callback in list(self._callbacks):
            callback()
        return True

    def _keep_old(self, error: ConfigError) -> None:
        _reloads.labels(self.name, "failure").inc()
        if str(error) != self._failure:
            self._failure = str(error)
            log.error("tls reload failed, previous files stay in use", identity=self.name, problems=error.problems)

    def _install(self, material: TlsMaterial) -> None:
        previous, self._material = self._material, material
        contexts, self._contexts = self._contexts, {}
        try:
            self._inner(())
        except ssl.SSLError as error:
            self._material, self._contexts = previous, contexts
            raise ConfigError(f"{self.files.cert}: OpenSSL refuses the set ({error.reason}). Issue a new certificate.") from error
        self.generation += 1
        self._failure = None
        _not_after.labels(self.name).set(material.certificate_not_after.timestamp())
        if material.crl_next_update is not None:
            _next_update.labels(self.name).set(material.crl_next_update.timestamp())

    def _inner(self, alpn: tuple[str, ...]) -> ssl.SSLContext:
        key = ("server", alpn)
        if key not in self._contexts:
            self._contexts[key] = self._loaded(ssl.PROTOCOL_TLS_SERVER, alpn)
        return self._contexts[key]

    def _blank(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_ciphers(CIPHERS)
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0
        if self.files.crl is not None:
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        return context

    def _loaded(self, protocol: int, alpn: Sequence[str]) -> ssl.SSLContext:
        context = self._blank(protocol)
        material = self._material
        with _as_path(material.ca) as ca, _as_path(material.cert) as cert, _as_path(material.key) as key:
            context.load_verify_locations(cafile=ca)
            context.load_cert_chain(cert, key, password=lambda: material.password or b"")
        if material.crl is not None:
            with _as_path(material.crl) as crl:
                context.load_verify_locations(cafile=crl)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


@contextmanager
def _as_path(data: bytes) -> Iterator[str]:
    """Give `ssl`, which takes chains and revocation lists only from files, a path to bytes that stay in memory."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pem", os.MFD_CLOEXEC)
        try:
            os.write(fd, data)
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
