# SPDX-License-Identifier: Apache-2.0
"""The whole decision: method, counts, grounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from controller_runtime.errors import ConfigError
from controller_runtime.ms.role_decision import DecisionInputs, DecisionRecord, Engine, Method, decide
from tests.support.engines import engine


def inputs(instances: int = 8, unit: Engine | None = None, **changes: object) -> DecisionInputs:
    return DecisionInputs.model_validate({"instances": instances, "engine": unit or engine(), **changes})


@pytest.mark.parametrize(
    "machine,count,expected", [("I", 8, (1, 7)), ("I", 16, (2, 14)), ("T", 5, (3, 2)), ("T", 8, (5, 3)), ("T", 16, (11, 5))]
)
def test_v1_v2_v30_the_abilities_decide_when_nothing_else_does(machine: str, count: int, expected: tuple[int, int]) -> None:
    record = decide(inputs(count, engine(machine)))

    assert (record.method, record.split, record.groups) == (Method.ABILITIES, expected, (expected,))
    assert record.feasible


def test_v30_and_v31_the_load_turns_the_balance() -> None:
    assert decide(inputs(17, engine("T"))).prefill > 8
    assert decide(inputs(5, engine("T"), input_tokens=400, output_tokens=1000)).split == (1, 4)
    assert decide(inputs(17, engine("T"), input_tokens=400, output_tokens=1000)).prefill <= 8


def test_v34_changed_lengths_turn_three_instances_round_and_back() -> None:
    assert decide(inputs(3, engine("T"))).split == (2, 1)
    assert decide(inputs(3, engine("T"), input_tokens=1024, output_tokens=1024)).split == (1, 2)


def test_a_given_ratio_beats_the_abilities() -> None:
    record = decide(inputs(8, given_prefill=3, given_decode=1))

    assert (record.method, record.split) == (Method.GIVEN, (6, 2))
    assert "the ratio 3:1 is given" in record.reason


def test_v32_hardware_beats_a_given_ratio() -> None:
    hardware = ("800I A2(64G)", "800I A2(64G)", *["800I A2(32G)"] * 5)
    record = decide(inputs(7, given_prefill=1, given_decode=8, hardware_types=hardware))

    assert (record.method, record.split) == (Method.HARDWARE, (5, 2))


def test_v33_lengths_never_turn_hardware_round() -> None:
    hardware = ("800I A2(32G)", "800I A2(64G)", "800I A2(32G)")

    assert decide(inputs(3, hardware_types=hardware, input_tokens=1, output_tokens=4000)).split == (2, 1)


def test_unknown_hardware_is_a_problem_of_the_record() -> None:
    record = decide(inputs(2, hardware_types=("800I A2(32G)", "Atlas 300")))

    assert (record.feasible, record.problems, record.groups) == (False, ("no_decode", "unknown_hardware"), ())


def test_every_rejected_split_is_recorded_with_its_predicted_abilities() -> None:
    record = decide(inputs(4, engine("T")))

    assert [(candidate.prefill, candidate.decode, candidate.chosen) for candidate in record.candidates] == [
        (1, 3, False),
        (2, 2, False),
        (3, 1, True),
    ]
    for candidate in record.candidates:
        assert candidate.prefill_ability == candidate.prefill * record.abilities.prefill
        assert candidate.decode_ability == candidate.decode * record.abilities.decode
        assert candidate.throughput == min(candidate.prefill_ability, candidate.decode_ability)
    assert max(record.candidates, key=lambda candidate: candidate.throughput).chosen


def test_the_reason_names_rates_bounds_and_the_runner_up() -> None:
    assert decide(inputs(8)).reason == (
        "1P:7D of 8 instances: the sides balance best for 3000 input and 200 output tokens. "
        "One instance: prefill 2.577 requests/s (batch 2 takes 776 ms, bounded by the 1000 ms objective), "
        "decode 0.3028 requests/s (batch 3 takes 49.54 ms, bounded by the 50 ms objective). "
        "Together 2.119 requests/s, bounded by decode. Best of the others: 2P:6D with 1.817 requests/s."
    )


def test_v8_an_unreachable_objective_still_decides_but_says_so() -> None:
    record = decide(inputs(8, decode_slo_ms=48))

    assert (record.split, record.feasible, record.problems) == ((1, 7), False, ("tpot_slo_unreachable",))
    assert record.reason.endswith("Not feasible: tpot_slo_unreachable.")


def test_one_instance_cannot_do_both() -> None:
    record = decide(inputs(1))

    assert (record.split, record.groups, record.problems) == ((1, 0), (), ("no_decode",))


def test_v38_no_input_is_refused() -> None:
    with pytest.raises(ValidationError, match="input_tokens"):
        inputs(8, input_tokens=0)


def test_a_rate_of_nothing_is_refused_with_the_remedy() -> None:
    slow = engine().model_copy(update={"machine": engine().machine.model_copy(update={"compute_tflops": 1e-6})})

    with pytest.raises(ConfigError, match=r"prefill requests per second, nothing to divide. Correct the model or machine profile"):
        decide(inputs(8, slow))


@pytest.mark.parametrize("changes", [{"given_prefill": 1}, {"hardware_types": ("800I A2(32G)",)}])
def test_half_a_ratio_and_missing_hardware_types_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="Give"):
        inputs(8, **changes)


def test_a_record_survives_json() -> None:
    record = decide(inputs(17, engine("T")))

    assert DecisionRecord.model_validate_json(record.model_dump_json()) == record
    assert len(record.groups) == 2


def test_the_same_inputs_give_the_same_record() -> None:
    assert decide(inputs(16)) == decide(inputs(16))
