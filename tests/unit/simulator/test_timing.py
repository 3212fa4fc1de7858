# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.errors import ConfigError
from simulator.timing import EngineTiming


def test_times_are_those_of_the_role_decision_in_seconds() -> None:
    timing = EngineTiming(1.0, "llama2-70B", "800I-A2", tensor_parallel=8)

    assert timing.prefill_s(3000) == pytest.approx(0.411841270099)
    assert timing.decode_step_s(batch=1, context_tokens=3200) == pytest.approx(0.048306555575)
    assert timing.kv_transfer_s(3000) == pytest.approx(0.0466552734375)


def test_the_scale_applies_to_all_times() -> None:
    real, quick = EngineTiming(1.0), EngineTiming(0.1)

    assert quick.prefill_s(100) == pytest.approx(real.prefill_s(100) / 10)
    assert quick.decode_step_s(4, 100) == pytest.approx(real.decode_step_s(4, 100) / 10)
    assert quick.kv_transfer_s(100) == pytest.approx(real.kv_transfer_s(100) / 10)


def test_unknown_profiles_are_named_all_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        EngineTiming(1.0, "no-model", "no-machine")

    assert len(refused.value.problems) == 2
    assert "llama2-70B" in refused.value.problems[0]
    assert "800I-A2" in refused.value.problems[1]
