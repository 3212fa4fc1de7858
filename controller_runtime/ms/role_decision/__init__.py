# SPDX-License-Identifier: Apache-2.0
"""How many instances prefill and how many decode. Arithmetic on plain models: no clock, no file, no network.

`decide` answers for a cluster and says why; `simulate` and the three timing functions answer for one instance.
"""

from controller_runtime.ms.role_decision.decision import Candidate, DecisionInputs, DecisionRecord, Method, decide
from controller_runtime.ms.role_decision.digs import Abilities, Lengths, Objectives, decode_step_ms, kv_transfer_ms, prefill_ms, simulate
from controller_runtime.ms.role_decision.profiles import MACHINES, MODELS, Engine, MachineProfile, ModelProfile, parse_machine, parse_model
from controller_runtime.ms.role_decision.ratio import Split, best_split, expected_ratio, given_split, group_splits, split_by_hardware

__all__ = [
    "decide",
    "DecisionInputs",
    "DecisionRecord",
    "Candidate",
    "Method",
    "simulate",
    "Abilities",
    "Lengths",
    "Objectives",
    "prefill_ms",
    "decode_step_ms",
    "kv_transfer_ms",
    "Engine",
    "ModelProfile",
    "MachineProfile",
    "parse_model",
    "parse_machine",
    "MODELS",
    "MACHINES",
    "Split",
    "best_split",
    "given_split",
    "expected_ratio",
    "group_splits",
    "split_by_hardware",
]
