# SPDX-License-Identifier: Apache-2.0
"""How long the simulated engine takes: the role decision's model of real hardware, times a scale.

A rehearsal therefore behaves as the decision expects: prompts and batches cost what they would cost on
the modelled cards. `time_scale` 0.1 makes everything ten times faster.
"""

from __future__ import annotations

from controller_runtime.errors import ConfigError
from controller_runtime.ms.role_decision import MACHINES, MODELS, Engine, decode_step_ms, kv_transfer_ms, prefill_ms

MS_PER_S = 1000.0


class EngineTiming:
    """Times of one engine, in seconds.

    Raises (constructor):
        ConfigError: `machine` or `performance_model` is none of the shipped profiles.
    """

    def __init__(
        self, time_scale: float, performance_model: str = "llama2-70B", machine: str = "800I-A2", tensor_parallel: int = 8
    ) -> None:
        problems = [
            f"{what}: {name!r} has no profile. Use one of {', '.join(known)}."
            for what, name, known in (("performance model", performance_model, MODELS), ("machine", machine, MACHINES))
            if name not in known
        ]
        if problems:
            raise ConfigError(problems)
        self._engine = Engine(model=MODELS[performance_model], machine=MACHINES[machine], tensor_parallel=tensor_parallel)
        self._scale = time_scale / MS_PER_S

    def prefill_s(self, prompt_tokens: int) -> float:
        """Time to prefill one prompt."""
        return prefill_ms(self._engine, 1, prompt_tokens) * self._scale

    def decode_step_s(self, batch: int, context_tokens: int) -> float:
        """Time of one decode step that `batch` requests share."""
        return decode_step_ms(self._engine, batch, context_tokens) * self._scale

    def kv_transfer_s(self, prompt_tokens: int) -> float:
        """Time to move the KV cache of one prompt."""
        return kv_transfer_ms(self._engine, prompt_tokens) * self._scale
