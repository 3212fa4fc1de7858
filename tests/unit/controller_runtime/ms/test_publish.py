# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.api.coordinator_api import InstancesRefresh
from controller_runtime.api.roles import Label, Role, RoleState
from controller_runtime.ms.publish import RefreshBody, published_links
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from tests.support.ms_builders import CONFIG, cluster, serve, spec, status

P, D = Role.PREFILL, Role.DECODE


def links(registry: ServerRegistry) -> dict[int, tuple[int, ...]]:
    return published_links(registry.present, has_roles=True)


async def test_vector_74_one_prefill_and_three_decode_servers_are_all_published() -> None:
    registry, _, _ = cluster(1, 3)
    serve(registry)

    assert links(registry) == {1: (2, 3, 4), 2: (1,), 3: (1,), 4: (1,)}


async def test_vector_77_a_prefill_server_without_decode_server_is_not_published() -> None:
    registry, _, [decode] = cluster(1, 1)
    serve(registry)

    registry.vanish(decode, 1)

    assert links(registry) == {}


async def test_a_link_counts_only_when_both_ends_report_it() -> None:
    registry, _, [decode, silent] = cluster(1, 2)
    serve(registry)

    registry.accept_status(silent, status(D, RoleState.READY, broken=(1,)), silent.posts)

    assert links(registry) == {1: (decode.id,), decode.id: (1,)}


async def test_vector_70_a_server_in_another_role_than_its_own_is_not_published() -> None:
    registry, _, [decode, other] = cluster(1, 2)
    serve(registry)

    registry.accept_status(other, status(P, RoleState.READY, ok=(1,)), other.posts)

    assert set(links(registry)) == {1, decode.id}


@pytest.mark.parametrize("reason", ["unhealthy", "unknown", "faulty", "joining", "uninitialised"])
async def test_a_server_that_cannot_serve_takes_nobody_with_it(reason: str) -> None:
    registry, _, [decode, out] = cluster(1, 2)
    serve(registry)

    if reason == "unhealthy":
        registry.fail_status(out)
    elif reason == "unknown":
        registry.accept_status(out, status(), out.posts)
    elif reason == "faulty":
        registry.mark_faulty([out])
    elif reason == "joining":
        out.is_joining = True
    else:
        out.is_initialized = False

    assert links(registry) == {1: (decode.id,), decode.id: (1,)}


async def test_the_body_is_what_a_coordinator_parses() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)

    body = InstancesRefresh.model_validate_json(RefreshBody(registry, has_roles=True).build())

    assert body.ids == (prefill.id, decode.id)
    first = body.instances[0]
    assert (first.ip, first.port, first.metric_port, first.inter_comm_port) == ("10.0.0.1", "1025", "1027", "")
    assert (first.static_info.role, first.static_info.label) == (P, Label.PREFILL_STATIC)
    assert (first.static_info.total_slots_num, first.static_info.total_block_num) == (200, 1024)
    assert first.dynamic_info.peers == (decode.id,)


async def test_the_body_is_built_again_only_after_a_change() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)
    body = RefreshBody(registry, has_roles=True)
    before = body.build()

    registry.accept_status(prefill, status(P, RoleState.READY, ok=(decode.id,)), prefill.posts)
    assert body.build() is before

    registry.accept_status(prefill, status(P, RoleState.READY, ok=(decode.id,), slots=7), prefill.posts)
    assert b'"avail_slots_num":7' in body.build()


async def test_without_roles_every_healthy_server_is_published_without_peers() -> None:
    registry = ServerRegistry()
    for number in (1, 2):
        server = KnownServer(id=number, spec=spec(number), config=CONFIG)
        registry.add(server)
        registry.accept_status(server, status(), 0)

    body = InstancesRefresh.model_validate_json(RefreshBody(registry, has_roles=False).build())

    assert body.ids == (1, 2)
    assert [instance.dynamic_info.peers for instance in body.instances] == [None, None]
