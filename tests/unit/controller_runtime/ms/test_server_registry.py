# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from controller_runtime.api.roles import Role, RoleState
from controller_runtime.ms.server_registry import Wiring
from tests.support.ms_builders import cluster, report, serve, spec, status, wiring

P, D = Role.PREFILL, Role.DECODE


async def test_every_prefill_server_is_wired_with_every_decode_server_of_its_group() -> None:
    registry, [prefill], [decode, other_group] = cluster(1, 2)
    registry.assign(other_group, D, 1, other_group.id, is_joining=False)

    assert registry.wiring_of(prefill) == wiring(P, decode.id)
    assert registry.wiring_of(decode) == wiring(D, prefill.id)
    assert registry.wiring_of(other_group) == wiring(D)


async def test_vector_66_a_valid_status_is_stored_and_totals_are_taken_once() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    registry.accept_post(prefill, registry.wiring_of(prefill))
    assert (prefill.role_state, prefill.is_initialized) == (RoleState.SWITCHING, True)

    registry.accept_status(prefill, status(P, RoleState.READY, ok=(decode.id,), slots=200), prefill.posts)
    registry.accept_status(prefill, status(P, RoleState.READY, ok=(decode.id,), slots=50), prefill.posts)

    assert (prefill.role_state, prefill.is_healthy, prefill.active_peers) == (RoleState.READY, True, {decode.id})
    assert (prefill.resource.avail_slots_num, prefill.total_slots, prefill.total_blocks) == (50, 200, 1024)


async def test_vector_67_without_a_valid_status_a_server_is_unknown_and_unhealthy_but_keeps_its_numbers() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)

    registry.fail_status(prefill)

    assert (prefill.role_state, prefill.is_healthy, prefill.is_initialized) == (RoleState.UNKNOWN, False, True)
    assert (prefill.resource.avail_slots_num, prefill.active_peers) == (200, {decode.id})


async def test_vector_73_a_refused_first_role_leaves_the_server_unknown_and_uninitialised() -> None:
    registry, [prefill], _ = cluster(1, 1)

    registry.fail_post(prefill)

    assert (prefill.role_state, prefill.is_healthy, prefill.is_initialized) == (RoleState.UNKNOWN, False, False)


async def test_a_refused_rewiring_leaves_a_serving_server_in_service() -> None:
    registry, [prefill], _ = cluster(1, 1)
    serve(registry)

    registry.fail_post(prefill)

    assert (prefill.role_state, prefill.is_healthy, prefill.is_initialized) == (RoleState.READY, True, True)
    assert registry.needs_post(prefill)


async def test_a_status_asked_for_before_the_post_says_nothing_about_the_role() -> None:
    registry, [prefill], _ = cluster(1, 1)
    asked_before = prefill.posts
    registry.accept_post(prefill, registry.wiring_of(prefill))

    registry.accept_status(prefill, status(), asked_before)

    assert prefill.role_state is RoleState.SWITCHING
    assert prefill.accepted is not None


async def test_vector_71_a_restarted_server_gets_its_role_again_after_its_peers_dropped_it() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)

    registry.accept_status(decode, status(), decode.posts)

    assert registry.wiring_of(prefill) == wiring(P)
    assert registry.needs_post(prefill)
    assert not registry.needs_post(decode)
    registry.accept_post(prefill, registry.wiring_of(prefill))
    assert registry.needs_post(decode)
    registry.accept_post(decode, registry.wiring_of(decode))
    assert registry.wiring_of(prefill) == wiring(P, decode.id)


async def test_a_server_that_was_given_its_role_by_an_earlier_controller_is_not_posted_again() -> None:
    registry, [prefill], [decode] = cluster(1, 1)

    report(registry, prefill)
    report(registry, decode)

    assert not registry.needs_post(prefill)
    assert not registry.needs_post(decode)
    assert prefill.is_initialized


async def test_a_server_with_other_links_than_wanted_is_posted_again() -> None:
    registry, [prefill], _ = cluster(1, 2)

    registry.accept_status(prefill, status(P, RoleState.READY, ok=(2,)), prefill.posts)

    assert registry.needs_post(prefill)


async def test_a_vanished_server_is_wanted_by_nobody_and_comes_back_with_its_role() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)

    registry.vanish(decode, now_epoch_s=1000)
    assert registry.wiring_of(prefill) == wiring(P)
    assert registry.present == [prefill]
    assert registry.forget_expired(1010, waiting_s=10) == []

    registry.reappear(decode, spec(decode.id))
    assert (decode.role, decode.delete_time, decode.is_joining) == (D, 0, True)


async def test_a_record_is_forgotten_after_the_waiting_time() -> None:
    registry, _, [decode] = cluster(1, 1)
    registry.vanish(decode, now_epoch_s=1000)

    assert registry.forget_expired(1011, waiting_s=10) == [decode.id]
    assert registry.get(decode.id) is None


async def test_a_faulty_server_is_wanted_by_nobody_until_it_answers() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)

    registry.mark_faulty([decode])
    assert registry.wiring_of(prefill) == Wiring(P, ())

    registry.readmit(decode)
    registry.accept_status(decode, status(), decode.posts)
    assert registry.needs_post(prefill)
    registry.accept_post(prefill, registry.wiring_of(prefill))
    assert registry.needs_post(decode)


async def test_waiting_for_a_change_ends_with_the_change() -> None:
    registry, [prefill], _ = cluster(1, 1)
    seen = registry.wiring_version
    waiting = asyncio.create_task(registry.changed_since(seen))
    await asyncio.sleep(0)
    assert not waiting.done()

    registry.fail_status(prefill)

    assert await waiting > seen
