# SPDX-License-Identifier: Apache-2.0
"""How many prefill and decode instances a stack gets, and why: given, or decided by the controller's own function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller_runtime.api.problems import Problem
from controller_runtime.api.stack import DecisionSpec, StackConfig
from controller_runtime.api.stack_rules import ROOT, check_stack
from controller_runtime.errors import ConfigError
from controller_runtime.ms.role_decision.decision import DecisionInputs, DecisionRecord, decide
from controller_runtime.ms.role_decision.profiles import MACHINES, MODELS, Engine


@dataclass(frozen=True)
class RoleSplit:
    """`instances`: role -> count. `record`: what the decision function says, also when the counts are given."""

    instances: dict[str, int]
    given: bool
    record: DecisionRecord

    @property
    def reason(self) -> str:
        """One sentence for the preview."""
        if not self.given:
            return self.record.reason
        return f"{self.instances['prefill']}P:{self.instances['decode']}D given in the configuration. {self.record.reason}"


def role_split(config: StackConfig) -> RoleSplit:
    """Read or decide the counts.

    Raises:
        ConfigError: model or machine have no profile, no split of `total_instances` serves, or it breaks a rule of the stack.
    """
    workload, decision = config.workload, config.decision
    _check_profiles(decision)
    given = workload.prefill.instances is not None and workload.decode.instances is not None
    total = workload.total_instances or (workload.prefill.instances or 0) + (workload.decode.instances or 0)
    record = decide(
        DecisionInputs(
            instances=total,
            engine=Engine(
                model=MODELS[decision.model],
                machine=MACHINES[decision.machine],
                tensor_parallel=workload.prefill.npus_per_pod,
                pipeline_parallel=decision.pipeline_parallel,
            ),
            input_tokens=decision.input_length_tokens,
            output_tokens=decision.output_length_tokens,
            prefill_slo_ms=decision.prefill_slo_ms,
            decode_slo_ms=decision.decode_slo_ms,
            given_prefill=config.controller.default_p_rate,
            given_decode=config.controller.default_d_rate,
        )
    )
    if given:
        return RoleSplit({"prefill": workload.prefill.instances or 0, "decode": workload.decode.instances or 0}, True, record)
    if not record.feasible:
        raise ConfigError(
            f"ascend-pd:stack.workload.total_instances is {total}: {record.reason} Change total_instances, the model or the objectives."
        )
    instances = {"prefill": record.split.prefill, "decode": record.split.decode}
    try:
        check_stack(_with_counts(config, instances))
    except ConfigError as error:
        decided = f"The counts were decided for workload.total_instances {total}: change that, or give instances of both roles."
        raise ConfigError([f"{problem} {decided}" for problem in error.problems]) from error
    return RoleSplit(instances, False, record)


def _check_profiles(decision: DecisionSpec) -> None:
    known: dict[str, Iterable[str]] = {"model": MODELS, "machine": MACHINES}
    problems = [
        Problem(f"decision.{field}", getattr(decision, field), "has no profile", f"Use one of {', '.join(sorted(names))}").sentence(ROOT)
        for field, names in known.items()
        if getattr(decision, field) not in names
    ]
    if problems:
        raise ConfigError(problems)


def _with_counts(config: StackConfig, instances: Mapping[str, int]) -> StackConfig:
    """The stack as if its counts had been given."""
    roles = {field: getattr(config.workload, field).model_copy(update={"instances": count}) for field, count in instances.items()}
    return config.model_copy(update={"workload": config.workload.model_copy(update={**roles, "total_instances": None})})
