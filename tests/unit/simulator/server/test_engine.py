# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.api.roles import CurrentRole, Role, RoleState
from simulator.server.engine import Engine, EngineSpec, Peer
from simulator.server.faults import Fault, FaultBoard, FaultKind
from simulator.server.refused import RefusedError
from simulator.wire import Reason
from tests.support.manual_clock import ManualClock

SPEC = EngineSpec(slots=2, blocks=4, block_size=10, role_load_s=1.0, link_period_s=1.0, link_timeout_s=20.0)
ONE, TWO = Peer(11, "127.0.0.11"), Peer(12, "127.0.0.12")


class Bench:
    """An engine with a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.faults = FaultBoard()
        self.engine = Engine(SPEC, "server-0", "127.0.0.1", self.clock, self.faults)

    def become(self, role: Role, *peers: Peer) -> Engine:
        assert self.engine.assign(role, 1, peers)
        self.clock.advance(SPEC.role_load_s)
        return self.engine

    @property
    def state(self) -> RoleState:
        return self.engine.role_state


@pytest.fixture
def bench() -> Bench:
    return Bench()


def reason(error: pytest.ExceptionInfo[RefusedError]) -> Reason:
    return error.value.refusal.reason


def test_a_fresh_engine_has_no_role(bench: Bench) -> None:
    service = bench.engine.status().service

    assert (service.role_status, service.current_role) == (RoleState.UNKNOWN, CurrentRole.NONE)


def test_a_prefill_engine_is_ready_when_its_role_is_loaded(bench: Bench) -> None:
    bench.engine.assign(Role.PREFILL, 1, [ONE])
    assert bench.state is RoleState.SWITCHING

    bench.clock.advance(SPEC.role_load_s)

    assert bench.state is RoleState.READY


def test_a_decode_engine_is_ready_when_all_its_links_stand(bench: Bench) -> None:
    engine = bench.become(Role.DECODE, ONE, TWO)
    engine.links.note_knock(ONE.id, "ok")
    assert bench.state is RoleState.SWITCHING

    engine.links.note_knock(TWO.id, "ok")

    assert bench.state is RoleState.READY


def test_a_decode_engine_starts_late_with_the_links_it_has(bench: Bench) -> None:
    bench.become(Role.DECODE, ONE, TWO).links.note_knock(ONE.id, "ok")

    bench.clock.advance(SPEC.link_timeout_s)

    assert bench.state is RoleState.READY


def test_a_decode_engine_without_a_link_never_becomes_ready(bench: Bench) -> None:
    bench.become(Role.DECODE, ONE)

    bench.clock.advance(100 * SPEC.link_timeout_s)

    assert bench.state is RoleState.SWITCHING


def test_a_lost_link_shows_in_the_links_and_not_in_the_role_state(bench: Bench) -> None:
    engine = bench.become(Role.DECODE, ONE)
    engine.links.note_knock(ONE.id, "ok")
    assert bench.state is RoleState.READY

    engine.links.note_knock(ONE.id, "connection refused")

    assert bench.state is RoleState.READY
    assert [(link.target, link.link) for link in engine.status().link_status.peers] == [(ONE.id, "connection refused")]


def test_the_prefill_end_of_a_link_goes_with_the_knocks(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)
    engine.links.note_heard(ONE.id)
    assert engine.status().link_status.active == {ONE.id}

    bench.clock.advance(3 * SPEC.link_period_s + 0.1)

    assert engine.status().link_status.active == frozenset()


def test_the_same_role_with_other_peers_rewires_while_requests_run(bench: Bench) -> None:
    engine = bench.become(Role.DECODE, ONE, TWO)
    engine.links.note_knock(ONE.id, "ok")
    with engine.work(1):
        assert engine.assign(Role.DECODE, 1, [ONE])

    assert [link.target for link in engine.status().link_status.peers] == [ONE.id]
    assert bench.state is RoleState.READY


def test_another_role_is_refused_while_requests_run(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)
    with engine.work(1):
        assert not engine.assign(Role.DECODE, 1, [ONE])
        assert engine.role is Role.PREFILL

    assert engine.assign(Role.DECODE, 1, [ONE])


def test_another_role_forgets_links_and_kv_bytes(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)
    engine.links.note_heard(ONE.id)
    engine.kv.put(b"kv", 1, ONE.id)

    bench.become(Role.DECODE, ONE)

    assert engine.kv.held == 0
    assert engine.status().link_status.active == frozenset()


def test_work_takes_a_slot_and_blocks_and_gives_them_back(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)
    with engine.work(11):
        resource = engine.status().resource
        assert (resource.avail_slots_num, resource.avail_block_num, resource.running_request_num) == (1, 2, 1)

    resource = engine.status().resource
    assert (resource.avail_slots_num, resource.avail_block_num, resource.running_request_num) == (2, 4, 0)


def test_too_many_requests_are_refused(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)
    with engine.work(1), engine.work(1), pytest.raises(RefusedError) as refused:
        engine.admit(Role.PREFILL)

    assert reason(refused) is Reason.FULL


def test_a_request_that_needs_too_many_blocks_is_refused(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)

    with pytest.raises(RefusedError) as refused, engine.work(41):
        pass

    assert reason(refused) is Reason.FULL
    assert engine.running == 0


def test_work_of_the_other_role_is_refused(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)

    with pytest.raises(RefusedError) as refused:
        engine.admit(Role.DECODE)

    assert reason(refused) is Reason.WRONG_ROLE


def test_work_is_refused_while_the_role_loads(bench: Bench) -> None:
    bench.engine.assign(Role.PREFILL, 1, [ONE])

    with pytest.raises(RefusedError) as refused:
        bench.engine.admit(Role.PREFILL)

    assert reason(refused) is Reason.WRONG_ROLE


def test_a_cut_link_is_reported_whatever_was_known(bench: Bench) -> None:
    engine = bench.become(Role.DECODE, ONE, TWO)
    engine.links.note_knock(ONE.id, "ok")
    engine.links.note_knock(TWO.id, "ok")

    bench.faults.replace([Fault(kind=FaultKind.DROP_LINK, peer=ONE.id)])
    assert engine.status().link_status.active == {TWO.id}
    bench.faults.replace([Fault(kind=FaultKind.DROP_LINK)])
    assert engine.status().link_status.active == frozenset()
    bench.faults.replace([])
    assert engine.status().link_status.active == {ONE.id, TWO.id}


def test_the_multi_node_status_counts_the_same_capacity(bench: Bench) -> None:
    engine = bench.become(Role.PREFILL, ONE)
    with engine.work(10):
        resource = engine.status_v2().resource

    assert (resource.total_avail_npu_slots_num, resource.total_avail_npu_block_num, resource.max_avail_npu_block_num) == (1, 3, 3)
