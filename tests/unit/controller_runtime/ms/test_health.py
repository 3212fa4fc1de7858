# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from controller_runtime.api.roles import RoleState
from controller_runtime.ms.health import StatusPoller
from controller_runtime.ms.role_body import RoleBodies
from controller_runtime.ms.server_client import ServerClient
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.server_spec import Ports
from tests.support.eventually import eventually
from tests.support.ms_builders import spec
from tests.support.ms_peers import GOOD_CONFIG, Peer, PeerPark, running, status_reply

STATUS = "/v1/status"


async def fleet(peers: PeerPark, count: int) -> tuple[ServerRegistry, StatusPoller, list[Peer], list[KnownServer]]:
    registry = ServerRegistry()
    members = [await peers.peer(v1__config=(200, GOOD_CONFIG), v1__status=(200, status_reply())) for _ in range(count)]
    servers = [
        KnownServer(id=number, spec=replace(spec(number, ip=member.ip), ports=Ports(1025, member.port, 1027)))
        for number, member in enumerate(members, 1)
    ]
    for server in servers:
        registry.add(server)
    http, tls = peers.client("ms-controller-request-server", timeout_s=5.0)
    client = ServerClient(http, tls, RoleBodies(registry.get, None, is_single_container=False), is_multi_node=False, timeout_s=5.0)
    return registry, StatusPoller(registry, client, period_s=0.1, faulty_period_s=0.3), members, servers


async def test_the_configuration_is_read_once_and_the_status_each_period(peers: PeerPark) -> None:
    _, poller, [member], [server] = await fleet(peers, 1)

    async with running(poller.run()):
        await eventually(lambda: member.count(STATUS) >= 4, "four polls")

    assert member.count("/v1/config") == 1
    assert (server.is_healthy, server.has_answered) == (True, True)
    assert len(member.connections) == 1


async def test_a_server_that_hangs_is_asked_once_and_delays_no_other(peers: PeerPark) -> None:
    _, poller, [hanging, other], _ = await fleet(peers, 2)
    hanging.gate.clear()

    async with running(poller.run()):
        await eventually(lambda: other.count(STATUS) >= 5, "the other is polled on")
        assert len(hanging.requests) == 1
        hanging.gate.set()


async def test_a_server_turns_unhealthy_and_healthy_with_its_answers(peers: PeerPark) -> None:
    _, poller, [member], [server] = await fleet(peers, 1)

    async with running(poller.run()):
        await eventually(lambda: server.is_healthy, "healthy")
        member.replies[STATUS] = (500, {})
        await eventually(lambda: not server.is_healthy and server.role_state is RoleState.UNKNOWN, "unhealthy")
        member.replies[STATUS] = (200, status_reply())
        await eventually(lambda: server.is_healthy, "healthy again")


async def test_a_faulty_server_is_taken_back_in_when_it_answers(peers: PeerPark) -> None:
    registry, poller, [member], [server] = await fleet(peers, 1)
    member.replies[STATUS] = (500, {})
    registry.mark_faulty([server])

    async with running(poller.run()):
        await eventually(lambda: member.count(STATUS) >= 2, "it is still asked")
        assert server.is_faulty
        member.replies[STATUS] = (200, status_reply())
        await eventually(lambda: not server.is_faulty and server.is_healthy, "it is back")

    assert server.is_joining


async def test_a_server_that_left_the_table_is_not_asked(peers: PeerPark) -> None:
    registry, poller, [gone, stays], [server, _] = await fleet(peers, 2)
    registry.vanish(server, 1000)

    async with running(poller.run()):
        await eventually(lambda: stays.count(STATUS) >= 3, "the other is polled")

    assert gone.requests == []
