# SPDX-License-Identifier: Apache-2.0
"""How many instances of each role a stack gets."""

from __future__ import annotations

import pytest

from components.split import role_split
from controller_runtime.errors import ConfigError
from tests.support.declared_stack import trial_stack

LEFT_TO_THE_DECISION: dict[str, object] = {
    "workload.prefill.instances": None,
    "workload.decode.instances": None,
    "workload.prefill.npus_per_pod": 8,
    "workload.decode.npus_per_pod": 8,
    "pools.prefill.nodes": 16,
    "pools.prefill.node_names": [],
    "pools.decode.nodes": 16,
    "pools.decode.node_names": [],
}


def test_given_counts_are_kept_and_the_decisions_opinion_is_told() -> None:
    split = role_split(trial_stack())

    assert (split.instances, split.given) == ({"prefill": 1, "decode": 1}, True)
    assert split.reason.startswith("1P:1D given in the configuration. ")
    assert split.record.reason in split.reason


@pytest.mark.parametrize("total", [2, 8, 16])
def test_the_decision_splits_a_total_into_two_non_empty_parts(total: int) -> None:
    split = role_split(trial_stack(LEFT_TO_THE_DECISION | {"workload.total_instances": total}))

    assert not split.given
    assert sum(split.instances.values()) == total
    assert min(split.instances.values()) >= 1
    assert split.reason == split.record.reason


def test_longer_prompts_move_instances_to_prefill() -> None:
    def prefill(tokens: int) -> int:
        changes = {"workload.total_instances": 16, "decision.input_length_tokens": tokens, "decision.prefill_slo_ms": 60000}
        return role_split(trial_stack(LEFT_TO_THE_DECISION | changes)).instances["prefill"]

    assert prefill(500) < prefill(8000)


def test_rates_of_the_controller_decide_when_given() -> None:
    changes = {"workload.total_instances": 8, "controller.default_p_rate": 3, "controller.default_d_rate": 1}

    assert role_split(trial_stack(LEFT_TO_THE_DECISION | changes)).instances == {"prefill": 6, "decode": 2}


def test_objectives_that_no_split_keeps_are_refused() -> None:
    changes = {"workload.total_instances": 4, "decision.prefill_slo_ms": 1}

    with pytest.raises(ConfigError, match=r"^ascend-pd:stack\.workload\.total_instances is 4: .* Change total_instances"):
        role_split(trial_stack(LEFT_TO_THE_DECISION | changes))


def test_a_decided_split_that_the_nodes_cannot_hold_is_refused() -> None:
    changes = {"workload.total_instances": 8, "controller.default_p_rate": 3, "controller.default_d_rate": 1, "pools.prefill.nodes": 5}

    with pytest.raises(ConfigError) as refused:
        role_split(trial_stack(LEFT_TO_THE_DECISION | changes))

    assert refused.value.problems == (
        "ascend-pd:stack.workload.prefill.instances is 6: needs 6 nodes of pool prefill, it has 5. Lower instances or add nodes."
        " The counts were decided for workload.total_instances 8: change that, or give instances of both roles.",
    )


def test_a_model_or_machine_without_a_profile_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(ConfigError) as refused:
        role_split(trial_stack({"decision.model": "nope", "decision.machine": "nope"}))

    first, second = refused.value.problems
    assert first.startswith('ascend-pd:stack.decision.model is "nope": has no profile. Use one of ')
    assert "llama2-70B" in first
    assert second.startswith('ascend-pd:stack.decision.machine is "nope": has no profile. Use one of ')
    assert "800I-A2" in second
