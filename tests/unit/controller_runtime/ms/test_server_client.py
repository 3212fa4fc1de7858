# SPDX-License-Identifier: Apache-2.0
"""Server-reply vectors 65-69, 72, 73, over real TLS links."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller_runtime.api.roles import Role, RoleState
from controller_runtime.api.server_api import RoleRequest, RoleRequestV2
from controller_runtime.ms.rank_table import parse_table
from controller_runtime.ms.role_body import RoleBodies
from controller_runtime.ms.server_client import PostResult, ServerClient
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry, Wiring
from controller_runtime.ms.server_spec import Ports
from tests.support.ms_builders import as_bytes, multi_node, row, rules, spec, table, wiring
from tests.support.ms_peers import GOOD_CONFIG, Peer, PeerPark, status_reply

P, D = Role.PREFILL, Role.DECODE


def known(peer: Peer, number: int = 1) -> KnownServer:
    return KnownServer(id=number, spec=replace(spec(number, ip=peer.ip), ports=Ports(1025, peer.port, 1027)))


def client(peers: PeerPark, registry: ServerRegistry | None = None, *, is_multi_node: bool = False) -> ServerClient:
    http, tls = peers.client("ms-controller-request-server")
    registry = registry or ServerRegistry()
    bodies = RoleBodies(registry.get, multi_node() if is_multi_node else None, is_single_container=False)
    return ServerClient(http, tls, bodies, is_multi_node=is_multi_node, timeout_s=1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"maxSeqLen": 4294967296},
        {"maxSeqLen": -1},
        {"maxSeqLen": 2560.0},
        {"maxSeqLen": "2560"},
        {"maxOutputLen": 0},
        {"maxOutputLen": 4294967295},
        {"cacheBlockSize": 0},
        {"cacheBlockSize": 129},
        {"modelName": ""},
    ],
)
async def test_vector_65_a_configuration_out_of_range_is_no_configuration(peers: PeerPark, change: dict[str, Any]) -> None:
    server = known(await peers.peer(v1__config=(200, GOOD_CONFIG | change)))

    assert await client(peers).config(server) is None


async def test_a_valid_configuration_and_status_are_parsed(peers: PeerPark) -> None:
    peer = await peers.peer(v1__config=(200, GOOD_CONFIG), v1__status=(200, status_reply("prefill", "RoleReady", ok=(7,))))
    server, calls = known(peer), client(peers)

    config, status = await calls.config(server), await calls.status(server)

    assert config is not None
    assert config.max_seq_len == 2560
    assert status is not None
    assert (status.role_state, status.active) == (RoleState.READY, {7})
    assert len(peer.connections) == 1


@pytest.mark.parametrize(
    "reply",
    [(200, status_reply(availSlotsNum=slots)) for slots in (-1, 5001)]
    + [(200, status_reply(availBlockNum=blocks)) for blocks in (-1, 4294967296)]
    + [(200, status_reply(role="both")), (200, status_reply(state="RoleLost")), (200, b"text"), (500, status_reply())],
)
async def test_vectors_67_and_68_a_bad_status_is_no_status(peers: PeerPark, reply: tuple[int, Any]) -> None:
    assert await client(peers).status(known(await peers.peer(v1__status=reply))) is None


async def test_vector_69_a_version_two_status_needs_all_three_numbers(peers: PeerPark) -> None:
    numbers = {"totalAvailNpuSlotsNum": 1, "totalAvailNpuBlockNum": 2, "maxAvailNpuBlockNum": 3}
    whole = {"service": {"roleStatus": "RoleReady", "currentRole": "decode"}, "resource": numbers}
    part = {**whole, "resource": {key: value for key, value in numbers.items() if key != "maxAvailNpuBlockNum"}}
    calls = client(peers, is_multi_node=True)

    status = await calls.status(known(await peers.peer(v2__status=(200, whole))))
    assert status is not None
    assert (status.resource.avail_slots_num, status.resource.avail_block_num) == (1, 2)
    assert await calls.status(known(await peers.peer(v2__status=(200, part)))) is None


async def test_a_failing_server_is_logged_once_with_the_text_operators_search_for(peers: PeerPark) -> None:
    peer = await peers.peer(v1__status=(500, {}))
    server, calls = known(peer, 42), client(peers)

    with capture_logs() as logs:
        await calls.status(server)
        await calls.status(server)

    expected = (
        f"[ServerRequestHandler]GetNodeStatus: send request failed, node id 42, ip {peer.ip}, port {peer.port}, ret code 500, request ret 0"
    )
    assert [line["event"] for line in logs if line["log_level"] == "error"] == [expected]


async def test_a_server_that_does_not_answer_costs_one_timeout(peers: PeerPark) -> None:
    peer = await peers.peer(v1__status=(200, status_reply()))
    peer.gate.clear()

    with capture_logs() as logs:
        assert await client(peers).status(known(peer)) is None

    peer.gate.set()
    events = [line["event"] for line in logs]
    assert "[HttpClient] Failed to send http request." in events
    assert any("ret code -1, request ret -1" in event for event in events)


async def test_a_peer_that_is_no_server_is_refused_before_anything_is_sent(peers: PeerPark) -> None:
    peer = await peers.peer("ms-coordinator", v1__status=(200, status_reply()))

    assert await client(peers).status(known(peer)) is None
    assert peer.requests == []


@pytest.mark.parametrize(
    ("reply", "is_initial", "expected"),
    [
        ((200, b""), True, PostResult.ACCEPTED),
        ((500, {}), True, PostResult.FAILED),
        ((200, {"result": "ok"}), False, PostResult.ACCEPTED),
        ((200, {"result": "switching"}), False, PostResult.STILL_SWITCHING),
        ((200, {"result": 1}), False, PostResult.FAILED),
        ((200, b""), False, PostResult.FAILED),
    ],
)
async def test_what_counts_as_accepted_depends_on_the_situation(
    peers: PeerPark, reply: tuple[int, Any], is_initial: bool, expected: PostResult
) -> None:
    server = known(await peers.peer(v1__role__prefill=reply))

    assert await client(peers).post_role(server, wiring(P), is_initial=is_initial) is expected


async def test_a_refused_role_is_logged_with_the_text_operators_search_for(peers: PeerPark) -> None:
    peer = await peers.peer(v1__role__decode=(503, {}))

    with capture_logs() as logs:
        await client(peers).post_role(known(peer, 42), wiring(D), is_initial=True)

    assert f"[NodeScheduler]PostSingleRole: request failed, node id 42, ip {peer.ip}, port {peer.port}, ret code 503, request ret 0" in [
        line["event"] for line in logs
    ]


async def test_a_role_post_names_this_server_and_its_peers(peers: PeerPark) -> None:
    peer = await peers.peer(v1__role__prefill=(200, {"result": "ok"}))
    registry = ServerRegistry()
    server, other = known(peer, 1), KnownServer(id=2, spec=spec(2))
    registry.add(other)

    await client(peers, registry).post_role(server, Wiring(P, (2, 99)), is_initial=True)

    body = RoleRequest.model_validate(peer.bodies("/v1/role/prefill")[0])
    assert (body.local.id, body.local.server_ip, body.local.host_ip) == (1, peer.ip, "192.168.0.1")
    assert [(each.id, each.server_ip, each.host_ip) for each in body.peers] == [(2, "10.0.0.2", "192.168.0.2")]


async def test_a_multi_node_post_carries_hosts_and_data_parallel_groups(peers: PeerPark) -> None:
    peer = await peers.peer(v2__role__prefill=(200, {"result": "ok"}))
    instance = {
        "group_id": "2",
        "deploy_server": "2",
        "server_list": [row("10.0.0.1", devices=8), row("10.0.0.2", devices=8, first_rank=8)],
    }
    layout = parse_table(as_bytes(table(instance)), rules(multi_node=multi_node()), "t")
    assert layout is not None
    server = KnownServer(id=5, spec=replace(layout.servers[0], ip=peer.ip, ports=Ports(1025, peer.port, 1027)))

    await client(peers, is_multi_node=True).post_role(server, wiring(P), is_initial=True)

    body = RoleRequestV2.model_validate(peer.bodies("/v2/role/prefill")[0])
    assert [member.server_ip for member in body.local] == ["10.0.0.1", "10.0.0.2"]
    assert [[group.dp_inst_id for group in member.dp_inst_list] for member in body.local] == [[50000, 50001], [50002, 50003]]
    assert [len(group.device) for member in body.local for group in member.dp_inst_list] == [4, 4, 4, 4]


async def test_a_role_post_ends_in_time_retries_included(peers: PeerPark) -> None:
    peer = await peers.peer("mindie-server", v1__role__prefill=(200, {}))
    peer.gate.clear()
    server = known(peer)
    http, tls = peers.client("ms-controller-request-server", retries=9)
    bodies = RoleBodies(ServerRegistry().get, None, is_single_container=False)
    made = ServerClient(http, tls, bodies, is_multi_node=False, timeout_s=1.0)
    loop = asyncio.get_running_loop()
    started = loop.time()

    result = await made.post_role(server, wiring(P), is_initial=True)

    assert result is PostResult.FAILED
    assert loop.time() - started < 5
    peer.gate.set()
