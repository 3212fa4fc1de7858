# SPDX-License-Identifier: Apache-2.0
"""`decide`: one answer to "how many prefill, how many decode", with everything a reader needs to doubt it.

Pure and total: same inputs, same record. A record that is not `feasible` still carries the best split there is;
the caller decides whether to go on. Three methods, in order of authority: the hardware (heterogeneous clusters),
a given ratio, the abilities.
Seed: controller manual, `role_decision_methods`, `default_p_rate`, `digs_*`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from controller_runtime.api.base import Model
from controller_runtime.api.roles import GROUP_LIMIT, GROUP_LIMIT_MULTI_NODE
from controller_runtime.errors import ConfigError
from controller_runtime.ms.role_decision.digs import EPSILON, Abilities, Batch, Lengths, Limit, Objectives, simulate
from controller_runtime.ms.role_decision.profiles import Engine
from controller_runtime.ms.role_decision.ratio import (
    Split,
    best_split,
    expected_ratio,
    given_split,
    group_splits,
    split_by_hardware,
)

Positive = Annotated[int, Field(ge=1, le=65535)]
Rate = Annotated[int, Field(ge=0, le=767)]


class Method(StrEnum):
    """What fixed the counts."""

    ABILITIES = "abilities"
    GIVEN = "given"
    HARDWARE = "hardware"


class DecisionInputs(Model):
    """Everything the decision depends on. Lengths in tokens, objectives in milliseconds."""

    instances: Annotated[int, Field(ge=1, le=GROUP_LIMIT_MULTI_NODE)]
    engine: Engine
    input_tokens: Positive = 3000
    output_tokens: Positive = 200
    prefill_slo_ms: Positive = 1000
    decode_slo_ms: Positive = 50
    given_prefill: Rate = 0
    given_decode: Rate = 0
    """Both zero: decided by the abilities."""
    hardware_types: tuple[str, ...] = ()
    """One per instance in a heterogeneous cluster, where it is the only thing that counts. Empty otherwise."""
    group_limit: Annotated[int, Field(ge=2, le=768)] = GROUP_LIMIT
    mode: Literal["reference"] = "reference"

    @model_validator(mode="after")
    def _given_and_hardware_are_whole(self) -> Self:
        if (self.given_prefill == 0) != (self.given_decode == 0):
            raise ValueError(
                f"the given ratio is {self.given_prefill}:{self.given_decode}. Give both rates, or neither for an automatic decision"
            )
        if self.hardware_types and len(self.hardware_types) != self.instances:
            raise ValueError(f"{len(self.hardware_types)} hardware types for {self.instances} instances. Give one per instance, or none")
        return self


class Candidate(Model):
    """One way to split, and what it could serve: requests per second of each side, the smaller being the whole."""

    prefill: int
    decode: int
    prefill_ability: float
    decode_ability: float
    throughput: float
    chosen: bool


class DecisionRecord(Model):
    """The decision and its grounds."""

    mode: Literal["reference"]
    method: Method
    prefill: int
    decode: int
    groups: tuple[Split, ...]
    """Counts per group; empty when a side has no instance."""
    abilities: Abilities
    expected: Split
    """Ratio that balances the sides best within one group, whatever was chosen."""
    candidates: tuple[Candidate, ...]
    """Every split with both sides present, by number of prefill instances; exactly the chosen one is marked."""
    feasible: bool
    problems: tuple[str, ...]
    """Machine-readable: ttft_slo_unreachable, tpot_slo_unreachable, out_of_memory, no_prefill, no_decode, unknown_hardware."""
    reason: str
    """Sentences for a person."""

    @property
    def split(self) -> Split:
        """The counts as one value."""
        return Split(self.prefill, self.decode)


def decide(inputs: DecisionInputs) -> DecisionRecord:
    """Choose the counts and record why, with the predicted abilities of every split that was not chosen.

    Raises ConfigError when a predicted rate is zero for all practical purposes: no split can be compared then.
    """
    abilities = simulate(
        inputs.engine,
        Lengths(inputs.input_tokens, inputs.output_tokens),
        Objectives(inputs.prefill_slo_ms, inputs.decode_slo_ms),
    )
    method, split = _choose(inputs, abilities)
    candidates = tuple(_candidate(Split(prefill, inputs.instances - prefill), abilities, split) for prefill in range(1, inputs.instances))
    problems = (*abilities.problems(), *_shortcomings(inputs, split))
    return DecisionRecord(
        mode=inputs.mode,
        method=method,
        prefill=split.prefill,
        decode=split.decode,
        groups=group_splits(split, inputs.group_limit),
        abilities=abilities,
        expected=expected_ratio(abilities.prefill, abilities.decode),
        candidates=candidates,
        feasible=not problems,
        problems=problems,
        reason=_reason(inputs, method, split, abilities, candidates, problems),
    )


def _choose(inputs: DecisionInputs, abilities: Abilities) -> tuple[Method, Split]:
    if inputs.hardware_types:
        return Method.HARDWARE, split_by_hardware(inputs.hardware_types)
    if inputs.given_prefill:
        return Method.GIVEN, given_split(inputs.given_prefill, inputs.given_decode, inputs.instances)
    for name, rate in (("prefill", abilities.prefill), ("decode", abilities.decode), ("KV transfer", abilities.transfer)):
        if rate < EPSILON:
            raise ConfigError(
                f"role decision: one instance is predicted to do {rate:.3g} {name} requests per second, nothing to divide. "
                "Correct the model or machine profile or the request lengths, or give the ratio."
            )
    return Method.ABILITIES, best_split(abilities.prefill, abilities.decode, inputs.instances)


def _candidate(split: Split, abilities: Abilities, chosen: Split) -> Candidate:
    prefill, decode = split.prefill * abilities.prefill, split.decode * abilities.decode
    return Candidate(
        prefill=split.prefill,
        decode=split.decode,
        prefill_ability=prefill,
        decode_ability=decode,
        throughput=min(prefill, decode),
        chosen=split == chosen,
    )


def _shortcomings(inputs: DecisionInputs, split: Split) -> tuple[str, ...]:
    found = []
    if split.prefill == 0:
        found.append("no_prefill")
    if split.decode == 0:
        found.append("no_decode")
    if sum(split) < inputs.instances:
        found.append("unknown_hardware")
    return tuple(found)


def _reason(
    inputs: DecisionInputs, method: Method, split: Split, abilities: Abilities, candidates: tuple[Candidate, ...], problems: tuple[str, ...]
) -> str:
    sentences = [_headline(inputs, method, split)]
    sentences.append(
        f"One instance: prefill {abilities.prefill:.4g} requests/s ({_bound(abilities.prefill_batch, inputs.prefill_slo_ms)}), "
        f"decode {abilities.decode:.4g} requests/s ({_bound(abilities.decode_batch, inputs.decode_slo_ms)})."
    )
    for candidate in candidates:
        if candidate.chosen:
            side = "prefill" if candidate.prefill_ability < candidate.decode_ability else "decode"
            sentences.append(f"Together {candidate.throughput:.4g} requests/s, bounded by {side}.")
    others = [candidate for candidate in candidates if not candidate.chosen]
    if others:
        second = max(others, key=lambda candidate: candidate.throughput)
        sentences.append(f"Best of the others: {Split(second.prefill, second.decode)} with {second.throughput:.4g} requests/s.")
    if problems:
        sentences.append(f"Not feasible: {', '.join(problems)}.")
    return " ".join(sentences)


def _headline(inputs: DecisionInputs, method: Method, split: Split) -> str:
    load = f"{inputs.input_tokens} input and {inputs.output_tokens} output tokens"
    because = {
        Method.HARDWARE: "the hardware type of each instance is its role",
        Method.GIVEN: f"the ratio {inputs.given_prefill}:{inputs.given_decode} is given",
        Method.ABILITIES: f"the sides balance best for {load}",
    }[method]
    return f"{split} of {inputs.instances} instances: {because}."


def _bound(batch: Batch, slo_ms: int) -> str:
    limit = {
        Limit.SLO: f"the {slo_ms} ms objective",
        Limit.MEMORY: "card memory",
        Limit.CAP: "the search",
    }[batch.limit]
    return f"batch {batch.size} takes {batch.time_ms:.4g} ms, bounded by {limit}"
