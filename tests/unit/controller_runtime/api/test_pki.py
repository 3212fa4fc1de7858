# SPDX-License-Identifier: Apache-2.0
"""The names in each identity's certificate."""

from __future__ import annotations

from controller_runtime.api.pki import Authority, Identity, Usage, identities
from tests.support.declared_stack import trial_stack


def named(changes: dict[str, object] | None = None) -> dict[str, Identity]:
    config = trial_stack(changes)
    return {identity.name: identity for identity in identities(config.pki_names(), config.pki.existing)}


def test_members_of_etcd_are_known_by_every_form_of_their_names() -> None:
    found = named({"namespaces.etcd": "infra", "cluster.domain": "corp.local"})
    server, peer = found["etcd-server"], found["etcd-peer"]
    forms = {
        f"{host}{suffix}"
        for host in ("etcd", "etcd-0.etcd", "etcd-1.etcd", "etcd-2.etcd")
        for suffix in ("", ".infra", ".infra.svc", ".infra.svc.corp.local")
    }
    wildcards = {"*.etcd.infra.svc", "*.etcd.infra.svc.corp.local"}

    assert set(server.dns_names) == forms | wildcards | {"localhost"}
    assert server.ip_addresses == ("127.0.0.1",)
    assert set(peer.dns_names) == forms | wildcards
    assert peer.ip_addresses == ()
    assert (server.usages, set(peer.usages)) == ((Usage.SERVER,), {Usage.SERVER, Usage.CLIENT})


def test_clients_of_etcd_are_users_by_common_name_and_carry_the_name_etcd_demands() -> None:
    clients = {name: each for name, each in named().items() if each.authority is Authority.ETCD and name != "etcd-server"}

    assert {name: each.common_name for name, each in clients.items()} == {
        "etcd-controller": "controller-mindie",
        "etcd-coordinator": "coordinator-mindie",
        "etcd-backup": "backup-mindie",
        "etcd-root": "root",
    }
    assert {each.dns_names for each in clients.values()} == {("etcd.client.local",)}
    assert {each.usages for each in clients.values()} == {(Usage.CLIENT,)}


def test_every_other_identity_carries_its_own_name_in_its_namespace() -> None:
    for name, identity in named({"namespaces.workload": "inference"}).items():
        if identity.authority is Authority.PD:
            assert identity.dns_names[0] == f"{name}.{identity.namespace}"
            assert identity.namespace in ("inference", "mindx-dl")


def test_those_dialled_by_a_service_carry_its_names() -> None:
    found = named({"cluster.domain": "corp.local"})

    assert "mindie-ms-coordinator-infer.mindie.svc.corp.local" in found["ms-coordinator"].dns_names
    assert "clusterd.mindx-dl.svc" in found["clusterd"].dns_names


def test_the_secret_is_named_after_the_identity_unless_the_site_brings_one() -> None:
    found = named({"pki.existing": {"ms-controller-ccae": {"secret": "to-ccae"}}})

    assert found["ms-controller-ccae"].secret == "to-ccae"
    assert found["smoke"].secret == "smoke-tls"
    assert found["ms-controller-ccae"].directory == "/mnt/tls/ms-controller-ccae"
