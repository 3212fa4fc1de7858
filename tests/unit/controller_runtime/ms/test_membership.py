# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from controller_runtime.api.roles import Role, RoleState
from controller_runtime.ms.membership import Membership
from controller_runtime.ms.publish import RefreshBody
from controller_runtime.ms.rank_table import Layout
from controller_runtime.ms.role_decision import Split
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.server_spec import ServerSpec, address_number
from tests.support.ms_builders import cluster, serve, spec, status, wiring

P, D = Role.PREFILL, Role.DECODE


def layout(*specs: ServerSpec) -> Layout:
    return Layout((), specs)


def formed(registry: ServerRegistry, target: Split | None = None, waiting_s: int = 100) -> Membership:
    membership = Membership(registry, waiting_s=waiting_s)
    membership.is_formed = True
    membership.target = target
    return membership


def at(registry: ServerRegistry, ip: str) -> KnownServer:
    return next(server for server in registry if server.spec.ip == ip)


def answer(registry: ServerRegistry, server: KnownServer) -> None:
    registry.accept_status(server, status(), server.posts)


async def test_new_rows_become_servers_with_ids_from_their_address() -> None:
    registry = ServerRegistry()

    Membership(registry, waiting_s=100).apply(layout(spec(1), spec(2)), {("10.0.0.2", 1026): 77}, 1000)

    assert sorted((server.spec.ip, server.id) for server in registry) == [("10.0.0.1", address_number("10.0.0.1")), ("10.0.0.2", 77)]


async def test_before_the_cluster_is_formed_who_leaves_is_forgotten() -> None:
    registry = ServerRegistry()
    membership = Membership(registry, waiting_s=100)
    membership.apply(layout(spec(1), spec(2)), {}, 1000)

    membership.apply(layout(spec(2)), {}, 1001)

    assert [server.spec.ip for server in registry] == ["10.0.0.2"]


async def test_vector_78_a_server_that_returns_in_time_has_its_old_id_and_role() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)
    membership = formed(registry)

    membership.apply(layout(prefill.spec), {}, 1000)
    assert decode.delete_time == 1000
    membership.forget_expired(1100)
    membership.apply(layout(prefill.spec, decode.spec), {}, 1100)

    assert registry.get(decode.id) is decode
    assert (decode.role, decode.delete_time, decode.is_joining) == (D, 0, True)


async def test_a_server_that_returns_too_late_is_new() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    membership = formed(registry, Split(1, 1))
    membership.apply(layout(prefill.spec), {}, 1000)
    membership.forget_expired(1101)

    membership.apply(layout(prefill.spec, decode.spec), {}, 1101)

    returned = at(registry, decode.spec.ip)
    assert returned is not decode
    assert returned.role is Role.UNDEFINED
    answer(registry, returned)
    membership.place_newcomers()
    assert returned.role is D


@pytest.mark.parametrize("moves", ["same host, new address", "same address, new host"])
async def test_a_replacement_takes_over_the_role_of_whom_it_replaces(moves: str) -> None:
    registry, [prefill], [decode, other] = cluster(1, 2)
    membership = formed(registry, Split(2, 1))
    newcomer = spec(9, host=decode.spec.host_ip) if moves.startswith("same host") else spec(9, host="192.168.9.9", ip=decode.spec.ip)
    if newcomer.ip == decode.spec.ip:
        newcomer = replace(newcomer, ports=newcomer.ports._replace(mgmt=2026))

    membership.apply(layout(prefill.spec, other.spec, newcomer), {}, 1000)
    replacement = next(server for server in registry if server.spec == newcomer)
    answer(registry, replacement)
    membership.place_newcomers()

    assert replacement.role is D
    assert replacement.is_joining


async def test_a_second_newcomer_on_the_same_host_is_no_replacement() -> None:
    registry, [prefill], [decode, other] = cluster(1, 2)
    membership = formed(registry, Split(2, 2))
    twins = [spec(8, host=decode.spec.host_ip), spec(9, host=decode.spec.host_ip)]

    membership.apply(layout(prefill.spec, other.spec, *twins), {}, 1000)
    for twin in twins:
        answer(registry, at(registry, twin.ip))
    membership.place_newcomers()

    assert [at(registry, twin.ip).role for twin in twins] == [D, P]


async def test_a_newcomer_has_no_role_until_it_answers() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    membership = formed(registry)

    membership.apply(layout(prefill.spec, decode.spec, spec(9, D)), {}, 1000)
    membership.place_newcomers()

    assert at(registry, "10.0.0.9").role is Role.UNDEFINED
    answer(registry, at(registry, "10.0.0.9"))
    membership.place_newcomers()
    assert registry.wiring_of(at(registry, "10.0.0.9")) == wiring(D, prefill.id)


async def test_an_address_taken_over_by_other_hardware_gets_the_hardwares_role() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    membership = formed(registry)
    membership.apply(layout(prefill.spec), {}, 1000)

    membership.apply(layout(prefill.spec, replace(decode.spec, role=P)), {}, 1001)

    assert (decode.role, decode.is_joining) == (P, True)


async def test_a_newcomer_keeps_the_role_it_reports_when_nothing_else_fixes_one() -> None:
    registry, _, _ = cluster(2, 1)
    serve(registry)
    membership = formed(registry, Split(1, 1))
    membership.apply(layout(*(server.spec for server in registry), spec(4)), {}, 1000)
    newcomer = at(registry, "10.0.0.4")
    registry.accept_status(newcomer, status(P, RoleState.READY, ok=(3,)), 0)

    membership.place_newcomers()

    assert (newcomer.role, newcomer.is_joining) == (P, False)


async def test_a_changed_row_of_a_server_that_stays_is_applied_and_published() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)
    body = RefreshBody(registry, has_roles=True)
    before = body.build()
    moved = replace(prefill.spec, ports=prefill.spec.ports._replace(predict=2025))

    formed(registry).apply(layout(moved, decode.spec), {}, 1000)

    assert b"2025" not in before
    assert b"2025" in body.build()
    assert not registry.needs_post(prefill)


async def test_a_kept_server_takes_the_role_that_the_table_now_fixes() -> None:
    registry, [first, second], [decode] = cluster(2, 1)
    serve(registry)

    formed(registry).apply(layout(first.spec, replace(second.spec, role=D), decode.spec), {}, 1000)

    assert (second.role, second.is_joining) == (D, True)
    assert registry.wiring_of(first).peers == (decode.id,)
