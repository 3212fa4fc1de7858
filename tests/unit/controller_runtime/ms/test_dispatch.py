# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Callable

from structlog.testing import capture_logs

from controller_runtime.api.roles import Role, RoleState
from controller_runtime.ms.dispatch import DispatchBudget, RoleDispatcher
from controller_runtime.ms.server_client import PostResult
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry, Wiring
from tests.support.eventually import eventually
from tests.support.ms_builders import cluster, report, serve, spec, status
from tests.support.ms_peers import running

P, D = Role.PREFILL, Role.DECODE
QUICK = DispatchBudget(post_attempts=3, check_attempts=3, check_wait_s=0.1, post_retry_s=0.02, still_switching_retry_s=0.02)
React = Callable[[KnownServer, Wiring], PostResult]


class Fleet:
    """Answers role posts; by default each Server accepts and is Ready with all its links a moment later."""

    def __init__(self, registry: ServerRegistry) -> None:
        self.registry = registry
        self.posts: list[tuple[int, Wiring]] = []
        self.reactions: dict[int, React] = {}
        self.silent: set[int] = set()

    async def post_role(self, server: KnownServer, wiring: Wiring, *, is_initial: bool) -> PostResult:
        self.posts.append((server.id, wiring))
        react = self.reactions.get(server.id)
        result = react(server, wiring) if react else PostResult.ACCEPTED
        if result is PostResult.ACCEPTED and server.id not in self.silent:
            asyncio.get_running_loop().call_later(0.01, report, self.registry, server)
        return result

    def wirings(self, server_id: int) -> list[Wiring]:
        return [wiring for posted, wiring in self.posts if posted == server_id]


async def initialise(registry: ServerRegistry, fleet: Fleet) -> None:
    await RoleDispatcher(registry, fleet, QUICK).initialise()


def faulty(registry: ServerRegistry) -> list[int]:
    return [server.id for server in registry if server.is_faulty]


async def test_every_server_gets_its_role_once_with_all_peers() -> None:
    registry, _, _ = cluster(1, 2)
    fleet = Fleet(registry)

    await initialise(registry, fleet)

    assert sorted(fleet.posts, key=lambda post: post[0]) == [(1, Wiring(P, (2, 3))), (2, Wiring(D, (1,))), (3, Wiring(D, (1,)))]
    assert faulty(registry) == []


async def test_a_refused_post_is_tried_again_and_then_the_server_is_faulty() -> None:
    registry, _, _ = cluster(1, 2)
    fleet = Fleet(registry)
    fleet.reactions[3] = lambda _server, _wiring: PostResult.FAILED

    await initialise(registry, fleet)

    assert len(fleet.wirings(3)) == QUICK.post_attempts
    assert faulty(registry) == [3]


async def test_a_server_that_forgets_its_role_after_accepting_is_posted_again() -> None:
    registry, _, [decode] = cluster(1, 1)
    fleet = Fleet(registry)

    def forget_first(server: KnownServer, _wiring: Wiring) -> PostResult:
        if len(fleet.wirings(server.id)) == 1:
            fleet.silent.add(server.id)
            asyncio.get_running_loop().call_later(0.01, lambda: registry.accept_status(server, status(), server.posts))
        else:
            fleet.silent.discard(server.id)
        return PostResult.ACCEPTED

    fleet.reactions[decode.id] = forget_first

    await initialise(registry, fleet)

    assert len(fleet.wirings(decode.id)) == 2
    assert faulty(registry) == []


async def test_a_prefill_server_still_switching_after_the_budget_is_faulty() -> None:
    registry, _, _ = cluster(2, 1)
    fleet = Fleet(registry)
    fleet.silent.add(1)

    await initialise(registry, fleet)

    assert faulty(registry) == [1]


async def test_vector_75_without_any_decode_server_the_whole_group_is_faulty() -> None:
    registry, _, _ = cluster(2, 2)
    fleet = Fleet(registry)
    fleet.silent |= {3, 4}

    with capture_logs() as logs:
        await initialise(registry, fleet)

    assert faulty(registry) == [1, 2, 3, 4]
    assert "[NodeScheduler]SendRole: all d node failed in group 0" in [line["event"] for line in logs]


async def test_vector_76_a_decode_server_may_take_its_time() -> None:
    registry, _, [slow, _] = cluster(2, 2)
    fleet = Fleet(registry)
    fleet.silent.add(slow.id)

    def later(server: KnownServer, _wiring: Wiring) -> PostResult:
        asyncio.get_running_loop().call_later(0.15, report, registry, server)
        return PostResult.ACCEPTED

    fleet.reactions[slow.id] = later

    await initialise(registry, fleet)

    assert faulty(registry) == []


async def test_a_slow_group_does_not_delay_another() -> None:
    registry, _, _ = cluster(2, 2)
    for server_id, group in ((1, 0), (2, 1), (3, 0), (4, 1)):
        server = registry.get(server_id)
        assert server is not None
        registry.assign(server, server.role, group, server_id, is_joining=False)
    fleet = Fleet(registry)
    fleet.silent |= {1, 3}

    async with running(initialise(registry, fleet)) as work:
        await eventually(lambda: registry.get(2) is not None and _is_ready(registry, 2) and _is_ready(registry, 4), "group 1 is ready", 1.0)
        assert not work.done()


async def test_a_changed_wiring_is_posted_to_exactly_those_it_concerns() -> None:
    registry, [prefill], [_, leaving] = cluster(1, 2)
    serve(registry)
    fleet = Fleet(registry)

    async with running(RoleDispatcher(registry, fleet, QUICK).maintain()):
        registry.vanish(leaving, 1000)
        await eventually(lambda: prefill.accepted == Wiring(P, (2,)), "the prefill server is rewired")

    assert fleet.posts == [(prefill.id, Wiring(P, (2,)))]


async def test_a_newcomer_gets_its_role_before_its_peers_list_it() -> None:
    registry, [prefill], _ = cluster(1, 1)
    serve(registry)
    fleet = Fleet(registry)
    newcomer = KnownServer(id=9, spec=spec(9))

    async with running(RoleDispatcher(registry, fleet, QUICK).maintain()):
        registry.add(newcomer)
        registry.accept_status(newcomer, status(), 0)
        registry.assign(newcomer, D, 0, 9, is_joining=True)
        await eventually(lambda: prefill.accepted == Wiring(P, (2, 9)), "the prefill server lists the newcomer")

    assert fleet.posts == [(9, Wiring(D, (1,))), (1, Wiring(P, (2, 9)))]


async def test_vector_72_a_server_that_is_still_switching_is_asked_again_later() -> None:
    registry, [prefill], [decode, _] = cluster(1, 2)
    serve(registry)
    fleet = Fleet(registry)
    fleet.reactions[prefill.id] = lambda server, _wiring: (
        PostResult.STILL_SWITCHING if len(fleet.wirings(server.id)) == 1 else PostResult.ACCEPTED
    )

    async with running(RoleDispatcher(registry, fleet, QUICK).maintain()):
        registry.vanish(decode, 1000)
        await eventually(lambda: prefill.accepted == Wiring(P, (3,)), "the second post is accepted")

    assert len(fleet.wirings(prefill.id)) == 2
    assert prefill.role_state is RoleState.READY


async def test_a_restarted_server_is_wired_in_again_link_by_link() -> None:
    registry, [prefill], [decode] = cluster(1, 1)
    serve(registry)
    fleet = Fleet(registry)

    async with running(RoleDispatcher(registry, fleet, QUICK).maintain()):
        registry.accept_status(decode, status(), decode.posts)
        await eventually(lambda: prefill.accepted == Wiring(P, (2,)) and decode.accepted == Wiring(D, (1,)), "both are wired again")

    assert fleet.posts == [(1, Wiring(P, ())), (2, Wiring(D, (1,))), (1, Wiring(P, (2,)))]


def _is_ready(registry: ServerRegistry, server_id: int) -> bool:
    server = registry.get(server_id)
    return server is not None and server.role_state is RoleState.READY


async def test_no_role_is_posted_while_somebody_else_may_lead() -> None:
    registry, _, _ = cluster(1, 1)
    fleet = Fleet(registry)

    await RoleDispatcher(registry, fleet, QUICK, may_act=lambda: False).initialise()

    assert fleet.posts == []
