# SPDX-License-Identifier: Apache-2.0
"""The closed form against worked numbers. Numbers in test ids are those of the vector table the formulas came with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.ms.role_decision import digs
from controller_runtime.ms.role_decision.digs import Lengths, Limit, Objectives, simulate
from controller_runtime.ms.role_decision.profiles import Engine
from controller_runtime.ms.role_decision.ratio import Split, best_split, expected_ratio
from tests.support.engines import engine

CLOSE = 1e-6


def close(value: float) -> object:
    return pytest.approx(value, rel=CLOSE)


def test_the_worked_default_is_reproduced_term_by_term() -> None:
    default = engine()

    assert digs._compute_ms(default, 3000, 3000) == close(326.784874146)
    assert digs._fetch_ms(default, 0) == close(47.047932943)
    assert digs._intra_host_ms(default, 3000) == close(37.368463010)
    assert digs._intra_host_start_ms(default) == close(0.64)
    assert [digs.prefill_ms(default, size, 3000) for size in (1, 2, 3)] == [close(411.841270099), close(775.994607256), close(1140.147944)]
    assert digs._compute_ms(default, 1, 3200) == close(0.109461104)
    assert [digs._fetch_ms(default, 3200 * size) for size in (1, 2, 3, 4)] == [
        close(47.544638316),
        close(48.041343689),
        close(48.538049062),
        close(49.034754435),
    ]
    assert [digs._collective_ms(default, size, 1) for size in (1, 2, 3, 4)] == [
        close(0.652456154),
        close(0.664912309),
        close(0.677368463),
        close(0.689824617),
    ]
    assert [digs.decode_step_ms(default, size, 3200) for size in (1, 2, 3, 4)] == [
        close(48.306555575),
        close(48.925178206),
        close(49.543800838),
        close(50.162423470),
    ]
    assert (digs.weights_gib(default), digs.token_mib(default)) == (15.9375, 0.0390625)
    assert (digs.memory_gib(default, 2, 3000), digs.memory_gib(default, 3, 3200)) == (16.1663818359375, 16.3037109375)


def test_the_other_machine_file_is_reproduced() -> None:
    other = engine("T")

    assert digs.prefill_ms(other, 3, 3000) == close(953.785413536)
    assert [digs.decode_step_ms(other, size, 3200) for size in (73, 74)] == [close(49.866410205), close(50.218498475)]


RATES = [
    # vector, engine, input, output, prefill objective, decode objective, batches, A, D
    pytest.param(engine("I"), 3000, 200, 1000, 50, (2, 3), 2.577337499, 0.302762399, id="V1"),
    pytest.param(engine("T"), 3000, 200, 1000, 50, (3, 73), 3.145361585, 7.319556361, id="V2"),
    pytest.param(engine("I", hidden_size=8129), 3000, 200, 1000, 50, (2, 4), 2.601388185, 0.402467187, id="V3"),
    pytest.param(engine("T"), 1024, 1024, 1000, 50, (9, 99), 9.619085083, 1.936845672, id="V4"),
    pytest.param(engine("T"), 400, 1000, 1000, 50, (25, 123), 25.017108123, 2.470074496, id="V5"),
    pytest.param(engine("T"), 2048, 512, 1000, 50, (4, 85), 4.689328447, 3.337089990, id="V6"),
    pytest.param(engine("T"), 200, 1000, 1000, 50, None, 50.257669846, 2.682742874, id="V7"),
    pytest.param(engine("I"), 3000, 200, 1000, 48, (2, 1), 2.577337499, 0.103505620, id="V8"),
    pytest.param(engine("I"), 3000, 200, 1000, 49, (2, 2), 2.577337499, 0.204393737, id="V9-49"),
    pytest.param(engine("I"), 3000, 200, 1000, 51, (2, 5), 2.577337499, 0.492309669, id="V9-51"),
    pytest.param(engine("I"), 3000, 200, 1000, 60, (2, 19), 2.577337499, 1.598202935, id="V9-60"),
    pytest.param(engine("I"), 3000, 200, 1000, 100, (2, 84), 2.577337499, 4.214657144, id="V9-100"),
    pytest.param(engine("I"), 3000, 200, 1000, 200, (2, 105), 2.577337499, 4.660729548, id="V10"),
    pytest.param(engine("I"), 3000, 200, 60000, 50, (112, 3), 2.742888824, 0.302762399, id="V11"),
    pytest.param(engine("I"), 3000, 200, 400, 50, (1, 3), 2.428119940, 0.302762399, id="V12"),
    pytest.param(engine("I"), 3000, 200, 65535, 65535, (112, 105), 2.742888824, 4.660729548, id="V13"),
    pytest.param(engine("I"), 1, 1, 1000, 50, (8398, 20), 8398.18118006, 400.303483406, id="V14"),
    pytest.param(engine("I"), 65535, 65535, 1000, 50, (1, 1), 0.052852524, 0.000222775, id="V15"),
    pytest.param(engine("I", tensor_parallel=4), 3000, 200, 1000, 50, (1, 1), 1.272792407, 0.052104688, id="V16"),
    pytest.param(engine("I", tensor_parallel=16), 3000, 200, 1000, 50, (4, 79), 4.831802841, 7.940175986, id="V17"),
    pytest.param(engine("I", pipeline_parallel=2), 3000, 200, 1000, 50, (4, 81), 4.751395104, 8.128688700, id="V18"),
    pytest.param(engine("I", "llama2-7B"), 3000, 200, 1000, 50, (23, 55), 23.160216185, 5.552427381, id="V19"),
    pytest.param(engine("I", "deepseek-v2-236B"), 3000, 200, 1000, 50, (8, 19), 8.706842386, 1.911289560, id="V21"),
]


@pytest.mark.parametrize("unit,tokens_in,tokens_out,prefill_slo,decode_slo,batches,prefill,decode", RATES)
def test_rates_and_batches_match_the_vector(
    unit: Engine,
    tokens_in: int,
    tokens_out: int,
    prefill_slo: int,
    decode_slo: int,
    batches: tuple[int, int] | None,
    prefill: float,
    decode: float,
) -> None:
    abilities = simulate(unit, Lengths(tokens_in, tokens_out), Objectives(prefill_slo, decode_slo))

    assert abilities.prefill == close(prefill)
    assert abilities.decode == pytest.approx(decode, rel=2e-6)
    if batches is not None:
        assert (abilities.prefill_batch.size, abilities.decode_batch.size) == batches


RATIOS = [
    pytest.param(
        engine("I"), 3000, 200, 50, Split(1, 9), {2: (1, 1), 3: (1, 2), 4: (1, 3), 5: (1, 4), 7: (1, 6), 8: (1, 7), 16: (2, 14)}, id="V1"
    ),
    pytest.param(
        engine("T"), 3000, 200, 50, Split(7, 3), {2: (1, 1), 3: (2, 1), 4: (3, 1), 5: (3, 2), 7: (5, 2), 8: (5, 3), 16: (11, 5)}, id="V2"
    ),
    pytest.param(engine("I", hidden_size=8129), 3000, 200, 50, Split(2, 13), {16: (3, 13)}, id="V3"),
    pytest.param(engine("T"), 1024, 1024, 50, Split(1, 5), {3: (1, 2), 16: (3, 13)}, id="V4"),
    pytest.param(engine("T"), 400, 1000, 50, Split(1, 10), {5: (1, 4), 16: (2, 14)}, id="V5"),
    pytest.param(engine("T"), 2048, 512, 50, Split(5, 7), {8: (3, 5)}, id="V6"),
    pytest.param(engine("T"), 200, 1000, 50, Split(1, 15), {16: (1, 15)}, id="V7"),
    pytest.param(engine("I"), 3000, 200, 48, Split(1, 15), {}, id="V8"),
    pytest.param(engine("I"), 3000, 200, 49, Split(1, 13), {8: (1, 7)}, id="V9-49"),
    pytest.param(engine("I"), 3000, 200, 51, Split(1, 5), {8: (2, 6)}, id="V9-51"),
    pytest.param(engine("I"), 3000, 200, 60, Split(5, 8), {8: (3, 5)}, id="V9-60"),
    pytest.param(engine("I"), 3000, 200, 100, Split(5, 3), {8: (5, 3)}, id="V9-100"),
    pytest.param(engine("I"), 3000, 200, 200, Split(9, 5), {}, id="V10"),
    pytest.param(engine("I", tensor_parallel=16), 3000, 200, 50, Split(5, 3), {}, id="V17"),
    pytest.param(engine("I", pipeline_parallel=2), 3000, 200, 50, Split(5, 3), {}, id="V18"),
    pytest.param(engine("I", "llama2-7B"), 3000, 200, 50, Split(1, 4), {16: (3, 13)}, id="V19"),
    pytest.param(engine("I", "deepseek-v2-236B"), 3000, 200, 50, Split(2, 9), {}, id="V21"),
]


@pytest.mark.parametrize("unit,tokens_in,tokens_out,decode_slo,ratio,splits", RATIOS)
def test_ratio_and_splits_match_the_vector(
    unit: Engine, tokens_in: int, tokens_out: int, decode_slo: int, ratio: Split, splits: dict[int, tuple[int, int]]
) -> None:
    abilities = simulate(unit, Lengths(tokens_in, tokens_out), Objectives(1000, decode_slo))

    assert expected_ratio(abilities.prefill, abilities.decode) == ratio
    assert {count: best_split(abilities.prefill, abilities.decode, count) for count in splits} == splits


def test_v8_an_unreachable_step_time_is_reported_and_not_silent() -> None:
    abilities = simulate(engine(), Lengths(3000, 200), Objectives(1000, 48))

    assert abilities.decode_batch.time_ms == close(48.306555575)
    assert abilities.problems() == ("tpot_slo_unreachable",)


def test_v10_and_v11_memory_cuts_what_the_objective_alone_allows() -> None:
    patient = simulate(engine(), Lengths(3000, 200), Objectives(60000, 200))

    assert digs.decode_step_ms(engine(), 246, 3200) <= 200 < digs.decode_step_ms(engine(), 247, 3200)
    assert digs.prefill_ms(engine(), 164, 3000) <= 60000 < digs.prefill_ms(engine(), 165, 3000)
    assert (patient.decode_batch.limit, patient.prefill_batch.limit) == (Limit.MEMORY, Limit.MEMORY)


def test_v13_the_search_ends_at_its_cap_when_neither_bound_does() -> None:
    batch = digs.decode_batch(engine(), Lengths(1, 1), 1e12)

    assert (batch.size, batch.limit) == (digs.MAX_BATCH, Limit.CAP)


def test_v15_both_objectives_missed_are_both_reported() -> None:
    abilities = simulate(engine(), Lengths(65535, 65535), Objectives(1000, 50))

    assert abilities.prefill_batch.time_ms == close(18920.572118)
    assert abilities.decode_batch.time_ms == close(68.495246)
    assert abilities.problems() == ("ttft_slo_unreachable", "tpot_slo_unreachable")


def test_v16_weights_that_do_not_fit_are_reported() -> None:
    small = engine(tensor_parallel=4)

    assert digs.weights_gib(small) == 31.875
    assert "out_of_memory" in simulate(small, Lengths(3000, 200), Objectives(1000, 50)).problems()


def test_v17_the_terms_between_hosts_of_a_tensor_parallel_group() -> None:
    wide = engine(tensor_parallel=16)

    assert digs.inter_host_ms(wide) == close(0.0001953125)
    assert digs.inter_host_start_ms(wide) == close(0.64)
    assert digs.inter_host_ms(engine(tensor_parallel=12)) == 0


def test_v18_the_terms_between_pipeline_stages() -> None:
    deep = engine(pipeline_parallel=2)

    assert digs.pipeline_ms(deep, 3000) == close(3.662109375)
    assert digs.pipeline_start_ms(deep) == close(0.002)


def test_v20_one_card_still_pays_for_collectives() -> None:
    single = engine("I", "llama2-7B", tensor_parallel=1)
    abilities = simulate(single, Lengths(3000, 200), Objectives(1000, 50))

    assert (digs.weights_gib(single), digs.token_mib(single)) == (12.0625, 0.5)
    assert (abilities.prefill_batch.size, abilities.decode_batch.size) == (3, 1)
    assert abilities.decode == close(0.111460918)
    assert digs._intra_host_ms(single, 3000) > 0


@pytest.mark.parametrize(
    "tokens,expected", [(0, 0), (1, 0.0155517578125), (128, 1.990625), (1000, 15.5517578125), (2048, 31.85), (3000, 46.6552734375)]
)
def test_v22_transfer_time_grows_with_the_input(tokens: int, expected: float) -> None:
    assert digs.kv_transfer_ms(engine(), tokens) == close(expected)


@pytest.mark.parametrize("changes,expected", [({}, 21.433804290947), ({"hidden_size": 8129}, 21.466199)])
def test_v1_and_v3_transfer_rate(changes: dict[str, Any], expected: float) -> None:
    assert simulate(engine(**changes), Lengths(3000, 200), Objectives(1000, 50)).transfer == close(expected)


def test_v14_and_v22_transfer_rate_of_one_token_and_of_none() -> None:
    assert simulate(engine(), Lengths(1, 1), Objectives(1000, 50)).transfer == close(64301.412873)
    assert simulate(engine(), Lengths(0, 1), Objectives(1000, 50)).transfer == 0


def test_nothing_to_generate_means_no_ability() -> None:
    abilities = simulate(engine(), Lengths(3000, 0), Objectives(1000, 50))

    assert (abilities.prefill, abilities.decode) == (0, 0)


@given(st.integers(1, 5000), st.integers(1, 2000), st.floats(1, 65535))
def test_the_batch_is_the_largest_that_the_objective_and_the_memory_allow(tokens_in: int, tokens_out: int, slo_ms: float) -> None:
    unit, context = engine(), tokens_in + tokens_out
    batch = digs.decode_batch(unit, Lengths(tokens_in, tokens_out), slo_ms)
    one_more = batch.size + 1

    fits_more = digs.decode_step_ms(unit, one_more, context) <= slo_ms and digs.memory_gib(unit, one_more, context) < 32 * 0.9
    assert not fits_more or batch.limit is Limit.CAP
    assert batch.size == 1 or (batch.meets_slo and batch.fits)
