# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from controller_runtime.api.coordinator_api import DynamicInfo, Instance, InstancesRefresh, StaticInfo
from controller_runtime.api.roles import Label, Role
from simulator.coordinator.fleet import UNKNOWN_TASKS, Fleet, Pair
from tests.support.manual_clock import ManualClock

P1, P2, D1, D2 = 1, 2, 11, 12


def instance(id_: int, role: Role, *peers: int, slots: int = 10) -> Instance:
    static = StaticInfo(
        label=Label.of(role), role=role, max_seq_len=100, max_output_len=50, block_size=10, total_slots_num=slots, total_block_num=100
    )
    dynamic = DynamicInfo(peers=peers, avail_slots_num=slots, avail_block_num=100)
    return Instance(id=id_, ip=f"127.0.0.{id_}", model_name="m", port="1025", metric_port="1027", static_info=static, dynamic_info=dynamic)


def refresh(*instances: Instance) -> InstancesRefresh:
    return InstancesRefresh(ids=tuple(one.id for one in instances), instances=instances)


def two_by_two() -> InstancesRefresh:
    prefills = [instance(id_, Role.PREFILL, D1, D2) for id_ in (P1, P2)]
    decodes = [instance(id_, Role.DECODE, P1, P2) for id_ in (D1, D2)]
    return refresh(*prefills, *decodes)


def fleet(body: InstancesRefresh, clock: ManualClock | None = None) -> Fleet:
    made = Fleet(clock or ManualClock(), cooldown_s=5.0)
    made.refresh(body)
    return made


def key(pair: Pair | None) -> tuple[int, int]:
    assert pair is not None
    return pair.key


def test_a_pair_is_linked_only_when_both_ends_say_so() -> None:
    one_sided = fleet(refresh(instance(P1, Role.PREFILL, D1), instance(D1, Role.DECODE, P2)))

    assert one_sided.pairs() == []
    assert one_sided.pick() is None


def test_requests_spread_over_all_servers() -> None:
    servers = fleet(two_by_two())
    first = servers.pick()
    assert first is not None
    with servers.assigned(first, 10):
        second = servers.pick()

    assert {first.prefill.id, key(second)[0]} == {P1, P2}
    assert {first.decode.id, key(second)[1]} == {D1, D2}


def test_equal_loads_go_to_the_pair_that_was_used_longest_ago() -> None:
    servers = fleet(two_by_two())
    used = []
    for _ in range(4):
        pair = servers.pick()
        assert pair is not None
        used.append(pair.prefill.id)
        with servers.assigned(pair, 10):
            pass

    assert used == [P1, P2, P1, P2]


def test_load_is_relative_to_the_slots_of_a_server() -> None:
    big, small = instance(P1, Role.PREFILL, D1, slots=100), instance(P2, Role.PREFILL, D1, slots=2)
    servers = fleet(refresh(small, big, instance(D1, Role.DECODE, P1, P2)))
    pairs = {pair.prefill.id: pair for pair in servers.pairs()}

    with servers.assigned(pairs[P1], 1), servers.assigned(pairs[P2], 1):
        assert key(servers.pick())[0] == P1


def test_a_failed_pair_is_not_picked_again() -> None:
    servers = fleet(two_by_two())
    all_keys = {pair.key for pair in servers.pairs()}
    failed: set[tuple[int, int]] = set()
    while (pair := servers.pick(failed)) is not None:
        failed.add(pair.key)

    assert failed == all_keys


def test_a_suspect_is_the_last_choice_for_a_while() -> None:
    clock = ManualClock()
    servers = fleet(two_by_two(), clock)
    servers.suspect([P1])
    assert key(servers.pick())[0] == P2
    with servers.assigned(servers.pairs()[-1], 1):
        assert key(servers.pick())[0] == P2

    clock.advance(5.0)

    assert key(servers.pick())[0] == P1


def test_an_offline_server_gets_nothing_new_until_it_is_online() -> None:
    servers = fleet(two_by_two())
    servers.set_offline([P1])
    assert {pair.prefill.id for pair in servers.pairs()} == {P2}

    servers.set_online([P1])

    assert {pair.prefill.id for pair in servers.pairs()} == {P1, P2}


def test_offline_survives_a_refresh_and_ends_when_the_server_leaves() -> None:
    servers = fleet(two_by_two())
    servers.set_offline([P1])
    servers.refresh(two_by_two())
    assert {pair.prefill.id for pair in servers.pairs()} == {P2}

    servers.refresh(refresh())
    servers.refresh(two_by_two())

    assert {pair.prefill.id for pair in servers.pairs()} == {P1, P2}


def test_a_refresh_tells_whether_servers_or_links_changed() -> None:
    servers = fleet(two_by_two())

    assert not servers.refresh(two_by_two())
    assert servers.refresh(refresh(instance(P1, Role.PREFILL, D1), instance(D1, Role.DECODE, P1)))


def test_a_prefill_server_is_free_as_soon_as_the_kv_bytes_have_moved() -> None:
    servers = fleet(two_by_two())
    pair = servers.pairs()[0]
    with servers.assigned(pair, 25) as work:
        assert (servers.tasks(pair.prefill.id), servers.tasks(pair.decode.id)) == (1, 1)
        assert not servers.is_pair_idle(*pair.key)

        work.holds_prefill = False

        assert (servers.tasks(pair.prefill.id), servers.tasks(pair.decode.id)) == (0, 1)
        assert servers.is_pair_idle(*pair.key)
    assert servers.tasks(pair.decode.id) == 0


def test_an_unknown_server_has_minus_one_tasks() -> None:
    assert fleet(two_by_two()).tasks(99) == UNKNOWN_TASKS


def test_tasks_of_a_server_that_left_are_still_counted() -> None:
    servers = fleet(two_by_two())
    pair = servers.pairs()[0]
    with servers.assigned(pair, 1):
        servers.refresh(refresh())

        assert servers.tasks(pair.decode.id) == 1
    assert servers.tasks(pair.decode.id) == UNKNOWN_TASKS


def test_schedule_info_counts_slots_and_started_blocks() -> None:
    servers = fleet(two_by_two())
    pair = servers.pairs()[0]
    with servers.assigned(pair, 25):
        info = {entry.id: (entry.allocated_slots, entry.allocated_blocks) for entry in servers.schedule_info()}

    assert info == {P1: (1, 3), P2: (0, 0), D1: (1, 3), D2: (0, 0)}
