# SPDX-License-Identifier: Apache-2.0
"""How many prefill and how many decode Servers there should be, from rates or from the role decision.

The model and machine files are read when roles are decided, not at start, as the manual has it.
Seed: controller manual, `default_p_rate`, `default_d_rate`, `digs_*` rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from controller_runtime.errors import ConfigError
from controller_runtime.foundation.log import get_logger
from controller_runtime.ms.config import Settings
from controller_runtime.ms.file_check import DATA_MODE, file_problem
from controller_runtime.ms.role_decision import DecisionInputs, decide
from controller_runtime.ms.role_decision.profiles import Engine, parse_machine, parse_model
from controller_runtime.ms.role_decision.ratio import Split, given_split
from controller_runtime.ms.server_spec import ServerSpec

log = get_logger(__name__)


def target_split(settings: Settings, specs: Sequence[ServerSpec]) -> Split | None:
    """Counts for these Servers; None when the rank table fixes every role. Reads files: call it in a thread.

    Raises:
        ConfigError: the rates do not fit together, or a model or machine file is missing or wrong.
    """
    if all(spec.has_fixed_role for spec in specs):
        return None
    p_rate, d_rate = settings.rates()
    if p_rate and d_rate:
        split = given_split(p_rate, d_rate, len(specs))
        log.info("roles counted out by the given rates", prefill=split.prefill, decode=split.decode, p_rate=p_rate, d_rate=d_rate)
        return split
    config = settings.config
    record = decide(
        DecisionInputs(
            instances=len(specs),
            engine=Engine(
                model=parse_model(_read(config.digs_model_config_path), config.digs_model_config_path),
                machine=parse_machine(_read(config.digs_machine_config_path), config.digs_machine_config_path),
                tensor_parallel=max(1, sum(len(spec.members[0].devices) for spec in specs) // len(specs)),
                pipeline_parallel=config.digs_pp,
            ),
            input_tokens=config.digs_request_summary_input_length,
            output_tokens=config.digs_request_summary_output_length,
            prefill_slo_ms=config.digs_prefill_slo,
            decode_slo_ms=config.digs_decode_slo,
        )
    )
    log.info("roles decided", prefill=record.prefill, decode=record.decode, feasible=record.feasible, reason=record.reason)
    return record.split


def _read(path: str) -> bytes:
    if problem := file_problem(path, allowed_mode=DATA_MODE, check_permission=True):
        raise ConfigError(f"{path} {problem}")
    return Path(path).read_bytes()
