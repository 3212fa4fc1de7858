# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from controller_runtime.api.roles import Role, RoleState
from controller_runtime.api.status_files import ProcessStatus
from controller_runtime.ms.backup import known_ids, rebuild_roles, restore
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.status_files import process_status
from tests.support.ms_builders import CONFIG, cluster, serve, spec, status, wiring

P, D = Role.PREFILL, Role.DECODE


def saved(prefills: int = 1, decodes: int = 1) -> ProcessStatus:
    registry, _, _ = cluster(prefills, decodes)
    serve(registry)
    return process_status(registry)


def restarted(*servers: KnownServer) -> ServerRegistry:
    """A new controller's registry: Servers known from the table and answering, no roles assigned."""
    registry = ServerRegistry()
    for server in servers:
        registry.add(server)
    return registry


def known(number: int, role: Role = Role.UNDEFINED) -> KnownServer:
    return KnownServer(id=number, spec=spec(number, role), config=CONFIG)


async def test_a_backup_gives_roles_even_when_every_server_has_forgotten_them() -> None:
    registry = restarted(known(1), known(2))
    for server in registry:
        registry.accept_status(server, status(), 0)

    restore(registry, saved(), 1000)

    assert [(server.role, server.total_slots, server.group_id) for server in registry] == [(P, 200, 0), (D, 200, 0)]
    assert [registry.needs_post(server) for server in registry] == [True, True]


async def test_servers_that_still_have_their_roles_are_left_alone() -> None:
    registry = restarted(known(1), known(2))
    for server, role, peer in zip(registry, (P, D), (2, 1), strict=True):
        registry.accept_status(server, status(role, RoleState.READY, ok=(peer,)), 0)

    restore(registry, saved(), 1000)

    assert [registry.needs_post(server) for server in registry] == [False, False]


async def test_a_server_that_restarted_meanwhile_waits_for_its_peers_to_drop_it() -> None:
    registry = restarted(known(1), known(2))
    prefill, decode = registry
    registry.accept_status(prefill, status(P, RoleState.READY, broken=(2,)), 0)
    registry.accept_status(decode, status(), 0)

    restore(registry, saved(), 1000)

    assert registry.wiring_of(prefill) == wiring(P)
    assert (registry.needs_post(prefill), registry.needs_post(decode)) == (True, False)


async def test_a_switch_that_a_server_already_made_is_kept() -> None:
    registry = restarted(known(1), known(2), known(3))
    switched = registry.get(2)
    assert switched is not None
    registry.accept_status(switched, status(P, RoleState.READY), 0)

    restore(registry, saved(1, 2), 1000)

    assert [server.role for server in registry] == [P, P, D]


async def test_a_role_the_table_fixes_is_stronger_than_the_backup() -> None:
    registry = restarted(known(1, D), known(2, P))

    restore(registry, saved(), 1000)

    assert [server.role for server in registry] == [D, P]


async def test_entries_without_a_server_are_kept_as_vanished() -> None:
    registry = restarted(known(1))

    restore(registry, saved(), 1000)

    gone = registry.get(2)
    assert gone is not None
    assert (gone.delete_time, gone.role, gone.spec.host_ip, gone.spec.key) == (1000, D, "192.168.0.2", ("10.0.0.2", 1026))


async def test_ids_of_a_seed_only_backup_are_found_by_address() -> None:
    whole = saved()
    seed_only = ProcessStatus(server=tuple(entry.model_copy(update={"mgmt_port": ""}) for entry in whole.server))
    twin = replace(spec(2), ports=spec(2).ports._replace(mgmt=2026))

    assert known_ids(whole, [])[("10.0.0.1", 1026)] == 1
    assert known_ids(seed_only, [spec(1), spec(2), twin]) == {("10.0.0.1", 1026): 1}
    assert known_ids(None, [spec(1)]) == {}


async def test_without_a_backup_roles_are_what_servers_say() -> None:
    registry = restarted(known(1), known(2), known(3))
    for number, role in ((1, P), (2, D)):
        server = registry.get(number)
        assert server is not None
        registry.accept_status(server, status(role, RoleState.READY), 0)

    assert rebuild_roles(registry) == {1: P, 2: D}
