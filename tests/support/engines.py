# SPDX-License-Identifier: Apache-2.0
"""Engines of the shipped profiles, for tests of the decision and of the simulator's timing."""

from __future__ import annotations

from controller_runtime.ms.role_decision import MACHINES, MODELS, Engine


def engine(machine: str = "I", model: str = "llama2-70B", tensor_parallel: int = 8, pipeline_parallel: int = 1, **changes: float) -> Engine:
    """`machine`: `I` for the 800I A2, `T` for the 800T A2. `changes`: other values of the model profile."""
    return Engine(
        model=MODELS[model].model_copy(update=changes),
        machine=MACHINES[f"800{machine}-A2"],
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
    )
