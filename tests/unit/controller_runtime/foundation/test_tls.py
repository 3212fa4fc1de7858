# SPDX-License-Identifier: Apache-2.0
"""Identity, contexts and reload; the handshakes are real, both ends in one thread."""

from __future__ import annotations

import asyncio
import ssl
from datetime import datetime

import pytest
import structlog
from prometheus_client import CollectorRegistry

from controller_runtime.errors import ConfigError
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from controller_runtime.foundation.tls_handshake import reason_of
from tests.support.eventually import eventually
from tests.support.pki import DAY, HOUR, Authority, now, publish_crl, replace_file, write_identity
from tests.unit.controller_runtime.foundation.conftest import Site

UNKNOWN_CA = ("unable to get local issuer certificate", "self-signed certificate in certificate chain")


class Link:
    """Both ends of one connection in memory, as asyncio drives them."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, server_hostname: str | None = None) -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(to_server, to_client, server_side=True)
        self.client = client.wrap_bio(to_client, to_server, server_hostname=server_hostname)
        self.outcome = {"server": "", "client": ""}
        ends = {"client": self.client, "server": self.server}
        for name, end in [*ends.items()] * 4:
            if not self.outcome[name]:
                self.outcome[name] = _step(end)
        for name, end in ends.items():
            if self.outcome[name] == "ok":
                end.write(b"x")
        for name, end in ends.items():
            if self.outcome[name] == "ok":
                self.outcome[name] = _read(end)


def _step(end: ssl.SSLObject) -> str:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return ""
    except ssl.SSLError as error:
        return reason_of(error)
    return "ok"


def _read(end: ssl.SSLObject) -> str:
    try:
        return "ok" if end.read(1) == b"x" else "closed"
    except ssl.SSLError as error:
        return reason_of(error)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, server_hostname: str | None = None) -> tuple[str, str]:
    """Shake hands and send one byte each way. Returns what server and client saw: `ok` or the reason in lower case."""
    outcome = Link(server, client, server_hostname).outcome
    return outcome["server"], outcome["client"]


def value(name: str, **labels: str) -> float | None:
    registry: CollectorRegistry = REGISTRY
    return registry.get_sample_value(name, labels)


def test_both_sides_of_one_ca_accept_each_other_without_a_server_name(site: Site) -> None:
    assert handshake(site.server().server_context, site.client().client_context()) == ("ok", "ok")


def test_with_a_server_name_the_swap_works_too(site: Site) -> None:
    assert handshake(site.server().server_context, site.client().client_context(), "mindie-server.mindie") == ("ok", "ok")


def test_a_client_without_certificate_is_refused(site: Site) -> None:
    anonymous = ssl.create_default_context(cafile=str(site.client_dir / "ca.crt"))
    anonymous.check_hostname = False

    assert handshake(site.server().server_context, anonymous)[0] == "peer did not return a certificate"


def test_a_client_of_another_ca_is_refused(site: Site) -> None:
    stranger = Authority("pd")
    write_identity(site.client_dir, stranger, stranger.issue("client"))
    replace_file(site.client_dir / "ca.crt", stranger.cert_pem + site.authority.cert_pem)
    replace_file(site.client_dir / "crl.pem", stranger.crl() + site.authority.crl())

    assert handshake(site.server().server_context, site.client().client_context())[0] in UNKNOWN_CA


def test_a_server_of_another_ca_is_refused(site: Site) -> None:
    stranger = Authority("elsewhere")
    write_identity(site.server_dir, stranger, stranger.issue("server"))

    assert handshake(site.server().server_context, site.client().client_context())[1] in UNKNOWN_CA


def test_a_revoked_client_and_a_revoked_server_are_refused(site: Site) -> None:
    publish_crl(site.server_dir, site.authority, [site.client_leaf])
    assert handshake(site.server().server_context, site.client().client_context())[0] == "certificate revoked"

    site.publish(site.server_leaf)
    assert handshake(site.server().server_context, site.client().client_context())[1] == "certificate revoked"


class Earlier:
    """A clock that is behind the machine's, so that an identity loads a list which OpenSSL sees as expired."""

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return now() - DAY


def test_a_list_that_expires_while_running_refuses_everybody(site: Site) -> None:
    authority = Authority("pd", not_before=now() - 3 * DAY)
    for directory in (site.server_dir, site.client_dir):
        write_identity(directory, authority, authority.issue(directory.name, not_before=now() - 3 * DAY))
        publish_crl(directory, authority, next_update=now() - HOUR)
    late_server = TlsIdentity(TlsFiles.in_directory(site.server_dir), clock=Earlier())
    late_client = TlsIdentity(TlsFiles.in_directory(site.client_dir), clock=Earlier())
    for directory in (site.server_dir, site.client_dir):
        publish_crl(directory, authority)

    assert handshake(late_server.server_context, site.client().client_context())[0] == "crl has expired"
    assert handshake(site.server().server_context, late_client.client_context())[1] == "crl has expired"


def test_without_a_list_revocation_is_not_checked(site: Site) -> None:
    site.publish(site.client_leaf)
    files = TlsFiles.in_directory(site.server_dir).model_copy(update={"crl": None})

    assert handshake(TlsIdentity(files).server_context, site.client().client_context()) == ("ok", "ok")


def test_tls_1_2_is_refused(site: Site) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.load_verify_locations(cafile=str(site.client_dir / "ca.crt"))
    old.load_cert_chain(str(site.client_dir / "tls.crt"), str(site.client_dir / "tls.key"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    assert handshake(site.server().server_context, old)[0] == "unsupported protocol"


def test_a_weak_key_of_the_peer_is_refused(site: Site) -> None:
    write_identity(site.client_dir, site.authority, site.authority.issue("client", key_kind="rsa1024"))
    weak = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    weak.check_hostname = False
    weak.set_ciphers("DEFAULT:@SECLEVEL=0")
    weak.load_verify_locations(cafile=str(site.client_dir / "ca.crt"))
    weak.load_cert_chain(str(site.client_dir / "tls.crt"), str(site.client_dir / "tls.key"))

    assert handshake(site.server().server_context, weak)[0] == "ee certificate key too weak"


def test_a_server_certificate_is_no_client_certificate(site: Site) -> None:
    write_identity(site.client_dir, site.authority, site.authority.issue("client", usages=["server"]))

    assert "purpose" in handshake(site.server().server_context, site.client().client_context())[0]


def test_no_session_ticket_lets_a_client_skip_the_check(site: Site) -> None:
    link = Link(site.server().server_context, site.client().client_context())
    session = link.client.session

    assert session is None or not session.has_ticket


def test_expected_names_accept_patterns_and_refuse_others(site: Site) -> None:
    server, client = site.server(), site.client()

    assert handshake(server.server_context, client.client_context(expect_sans=["x", "mindie-server.*"]))[1] == "ok"
    refused = handshake(server.server_context, client.client_context(expect_sans=["ms-coordinator.mindie"]))[1]
    assert "peer is mindie-server.mindie, expected ms-coordinator.mindie" in refused


def test_host_name_check_is_there_for_peers_with_names(site: Site) -> None:
    server, client = site.server(), site.client()
    context = client.client_context(check_hostname=True)

    assert handshake(server.server_context, context, "mindie-server.mindie")[1] == "ok"
    assert "hostname mismatch" in handshake(server.server_context, context, "other.mindie")[1]


def test_the_listener_offers_the_application_protocol(site: Site) -> None:
    link = Link(site.server().server_context_for(["h2"]), site.client().client_context(["h2"]))

    assert link.client.selected_alpn_protocol() == "h2"


def test_an_encrypted_key_serves(site: Site) -> None:
    replace_file(site.server_dir / "tls.key", site.server_leaf.key_pem(b"s3cret pass"))
    (site.server_dir / "password").write_bytes(b"s3cret pass\n")
    files = TlsFiles.in_directory(site.server_dir).model_copy(update={"password": site.server_dir / "password"})

    assert handshake(TlsIdentity(files).server_context, site.client().client_context()) == ("ok", "ok")


def test_a_reload_replaces_list_certificate_and_ca_on_the_same_listener(site: Site) -> None:
    server, client = site.server(), site.client()
    front = server.server_context
    assert handshake(front, client.client_context()) == ("ok", "ok")

    publish_crl(site.server_dir, site.authority, [site.client_leaf])
    assert server.reload_if_changed()
    assert handshake(front, client.client_context())[0] == "certificate revoked"

    publish_crl(site.server_dir, site.authority)
    assert server.reload_if_changed()
    assert handshake(front, client.client_context()) == ("ok", "ok")

    successor = Authority("pd-2")
    write_identity(site.server_dir, successor, successor.issue("server"))
    assert server.reload_if_changed()
    assert handshake(front, client.client_context())[1] in UNKNOWN_CA


def test_generation_contexts_and_callbacks_follow_a_reload(site: Site) -> None:
    identity = site.client()
    calls: list[int] = []
    end = identity.on_change(lambda: calls.append(identity.generation))
    first = identity.client_context()
    assert identity.client_context() is first
    assert not identity.reload_if_changed()
    assert identity.generation == 1

    site.publish()
    assert identity.reload_if_changed()
    assert identity.generation == 2
    assert identity.client_context() is not first

    end()
    site.publish()
    identity.reload_if_changed()
    assert calls == [2]


def test_a_failed_reload_keeps_the_old_files_and_says_so_once(site: Site) -> None:
    server, client = site.server(), site.client()
    replace_file(site.server_dir / "tls.key", site.client_leaf.key_pem())
    failures = value("tls_reloads_total", identity="server", result="failure") or 0

    with structlog.testing.capture_logs() as logs:
        assert not server.reload_if_changed()
        assert not server.reload_if_changed()

    assert handshake(server.server_context, client.client_context()) == ("ok", "ok")
    assert server.generation == 1
    assert [line["event"] for line in logs] == ["tls reload failed, previous files stay in use"]
    assert value("tls_reloads_total", identity="server", result="failure") == failures + 2

    replace_file(site.server_dir / "tls.key", site.server_leaf.key_pem())
    assert not server.reload_if_changed()
    assert server.generation == 1


@pytest.mark.parametrize("damage", ["expired list", "missing list", "weak key"])
def test_a_set_that_fails_its_checks_is_never_taken_over(site: Site, damage: str) -> None:
    server = site.server()
    if damage == "expired list":
        publish_crl(site.server_dir, site.authority, next_update=now() - HOUR)
    elif damage == "missing list":
        (site.server_dir / "crl.pem").unlink()
    else:
        write_identity(site.server_dir, site.authority, site.authority.issue("server", key_kind="rsa1024"))

    assert not server.reload_if_changed()
    assert server.generation == 1


def test_metrics_tell_when_certificate_and_list_end(site: Site) -> None:
    identity = TlsIdentity(TlsFiles.in_directory(site.server_dir), name="metrics-test")

    assert identity.crl_next_update is not None
    assert value("crl_next_update_timestamp_seconds", identity="metrics-test") == identity.crl_next_update.timestamp()
    assert value("tls_certificate_not_after_timestamp_seconds", identity="metrics-test") == identity.certificate_not_after.timestamp()


def test_bad_files_at_start_are_an_error(site: Site) -> None:
    replace_file(site.server_dir / "tls.key", site.client_leaf.key_pem())

    with pytest.raises(ConfigError, match="does not belong to the certificate"):
        site.server()


async def test_watch_takes_over_what_a_secret_update_brings(site: Site) -> None:
    identity = site.server()
    watching = asyncio.create_task(identity.watch(period_s=0.01))
    try:
        site.publish(site.client_leaf)
        await eventually(lambda: identity.generation == 2, "the new list is in use")
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
