# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.ms.coordinators import CoordinatorPublisher
from controller_runtime.ms.server_registry import ServerRegistry
from tests.support.eventually import eventually
from tests.support.ms_builders import cluster, serve
from tests.support.ms_peers import Peer, PeerPark, running

REFRESH = "/v1/instances/refresh"


def refused() -> float:
    return REGISTRY.get_sample_value("ms_coordinator_refreshes_total", {"result": "failed"}) or 0.0


async def coordinators(peers: PeerPark, count: int) -> list[Peer]:
    """Listeners that share one port, as Coordinators do."""
    first = await peers.peer("ms-coordinator", v1__instances__refresh=(200, {}))
    others = [await peers.peer("ms-coordinator", first.port, v1__instances__refresh=(200, {})) for _ in range(count - 1)]
    return [first, *others]


def publisher(peers: PeerPark, registry: ServerRegistry, members: list[Peer], period_s: float = 0.2) -> CoordinatorPublisher:
    http, tls = peers.client("ms-controller-request-coordinator", timeout_s=5.0)
    made = CoordinatorPublisher(registry, http, tls, port=members[0].port, period_s=period_s, has_roles=True)
    made.set_coordinators([member.ip for member in members])
    return made


async def test_every_coordinator_gets_all_usable_servers_each_period(peers: PeerPark) -> None:
    registry, _, _ = cluster(1, 1)
    serve(registry)
    members = await coordinators(peers, 2)

    async with running(publisher(peers, registry, members).run()):
        await eventually(lambda: all(member.count(REFRESH) >= 3 for member in members), "both were told three times")

    assert [body["ids"] for body in members[0].bodies(REFRESH)][:1] == [[1, 2]]


async def test_a_change_is_published_at_once(peers: PeerPark) -> None:
    registry, _, [decode] = cluster(1, 1)
    serve(registry)
    members = await coordinators(peers, 1)

    async with running(publisher(peers, registry, members, period_s=60.0).run()):
        await eventually(lambda: members[0].count(REFRESH) == 1, "the first message")
        registry.fail_status(decode)
        await eventually(lambda: members[0].count(REFRESH) == 2, "the change", 2.0)

    assert members[0].bodies(REFRESH)[1] == {"ids": [], "instances": []}


async def test_a_coordinator_that_hangs_delays_no_other_and_gets_the_newest_state(peers: PeerPark) -> None:
    registry, _, [decode] = cluster(1, 1)
    serve(registry)
    hanging, other = await coordinators(peers, 2)
    hanging.gate.clear()

    async with running(publisher(peers, registry, [hanging, other]).run()):
        await eventually(lambda: other.count(REFRESH) >= 3, "the other is told again and again")
        registry.fail_status(decode)
        assert hanging.count(REFRESH) == 1
        hanging.gate.set()
        await eventually(lambda: hanging.count(REFRESH) >= 2, "the one that hung is told again")

    assert hanging.bodies(REFRESH)[1]["ids"] == []


async def test_a_coordinator_is_healthy_when_the_last_exchange_worked(peers: PeerPark) -> None:
    registry, _, _ = cluster(1, 1)
    good, bad = await coordinators(peers, 2)
    bad.replies[REFRESH] = (500, {})
    made = publisher(peers, registry, [good, bad])
    assert made.health == {good.ip: False, bad.ip: False}

    async with running(made.run()):
        await eventually(lambda: made.health == {good.ip: True, bad.ip: False}, "one is healthy")
        made.set_coordinators([good.ip, "127.0.7.250"])
        assert made.health == {good.ip: True, "127.0.7.250": False}


async def test_a_server_certificate_is_not_taken_for_a_coordinators(peers: PeerPark) -> None:
    registry, _, _ = cluster(1, 1)
    impostor = await peers.peer("mindie-server", v1__instances__refresh=(200, {}))
    made = publisher(peers, registry, [impostor], period_s=0.05)

    before = refused()
    async with running(made.run()):
        await eventually(lambda: refused() > before, "one try has failed")

    assert impostor.requests == []
    assert made.health == {impostor.ip: False}


async def test_nothing_is_sent_while_somebody_else_may_lead(peers: PeerPark) -> None:
    registry, _, _ = cluster(1, 1)
    serve(registry)
    [member] = await coordinators(peers, 1)
    http, tls = peers.client("ms-controller-request-coordinator", timeout_s=5.0)
    rights, asked = [False, False, True], list[int]()

    def may_act() -> bool:
        asked.append(member.count(REFRESH))
        return rights.pop(0) if rights else True

    made = CoordinatorPublisher(registry, http, tls, port=member.port, period_s=0.05, has_roles=True, may_act=may_act)
    made.set_coordinators([member.ip])
    async with running(made.run()):
        await eventually(lambda: member.count(REFRESH) >= 1, "told once it may act")

    assert asked[:3] == [0, 0, 0]
