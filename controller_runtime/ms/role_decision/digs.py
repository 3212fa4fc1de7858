# SPDX-License-Identifier: Apache-2.0
"""Closed-form speed of one instance, as the reference Controller computes it.

Times are milliseconds, lengths tokens, memory GiB, rates requests per second. Compute, memory and link times
are added, never overlapped. Bytes count in powers of 1024 and FLOPs in powers of 1000. Two known oddities are
kept because the counts of existing clusters rest on them: two feed-forward matrices where the memory model has
three, and an inter-host term that is not scaled to milliseconds.
Seed: controller manual, `digs_*` keys of table 1. Reference only: the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller_runtime.ms.role_decision.profiles import Engine

KIB: Final = 1024.0
EPSILON: Final = 1e-6
MAX_BATCH: Final = 100_000
TRANSFER_BLOCK_TOKENS: Final = 128


class Limit(StrEnum):
    """What keeps a batch from growing."""

    SLO = "slo"
    MEMORY = "memory"
    CAP = "cap"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean request: input and output tokens."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Objectives:
    """Bound on one prefill batch and on one decode step, milliseconds."""

    prefill_ms: float
    decode_ms: float


@dataclass(frozen=True, slots=True)
class Batch:
    """The largest batch of one phase: its size, its time and what bounds it.

    `meets_slo` and `fits` are false when even a single request does not; the size is then 1 all the same.
    """

    size: int
    time_ms: float
    memory_gib: float
    limit: Limit
    meets_slo: bool
    fits: bool


@dataclass(frozen=True, slots=True)
class Abilities:
    """Requests per second of ONE instance as prefill, as decode, and of one KV transfer path."""

    prefill: float
    decode: float
    transfer: float
    prefill_batch: Batch
    decode_batch: Batch

    def problems(self) -> tuple[str, ...]:
        """Why the objectives cannot be met at all; empty when they can."""
        found = []
        if not self.prefill_batch.meets_slo:
            found.append("ttft_slo_unreachable")
        if not self.decode_batch.meets_slo:
            found.append("tpot_slo_unreachable")
        if not (self.prefill_batch.fits and self.decode_batch.fits):
            found.append("out_of_memory")
        return tuple(found)


def prefill_ms(engine: Engine, batch: int, input_tokens: float) -> float:
    """Time of one prefill batch of equal requests."""
    compute = batch * _compute_ms(engine, input_tokens, input_tokens)
    return compute + _fetch_ms(engine, 0.0) + _collective_ms(engine, batch, input_tokens)


def decode_step_ms(engine: Engine, batch: int, context_tokens: float) -> float:
    """Time of one decode step: one token for each of `batch` requests, whose mean context is `context_tokens`.

    The reference puts the final context, input plus output, for every step.
    """
    compute = _compute_ms(engine, batch, context_tokens)
    return compute + _fetch_ms(engine, context_tokens * batch) + _collective_ms(engine, batch, 1)


def kv_transfer_ms(engine: Engine, input_tokens: float) -> float:
    """Time to move the KV cache of one request from prefill to decode. Zero for zero tokens."""
    model, machine = engine.model, engine.machine
    kv_bytes = 2 * model.num_hidden_layers * input_tokens * model.torch_dtype.size_bytes * model.hidden_size * _kv_share(engine)
    wire = kv_bytes / _network_bytes(engine) / engine.tensor_parallel / engine.pipeline_parallel * 1000 / KIB**3
    operations = 2 * model.num_hidden_layers * input_tokens / TRANSFER_BLOCK_TOKENS
    return wire + operations * (1000 * machine.transfer_start_s)


def weights_gib(engine: Engine) -> float:
    """Weights on one card."""
    model = engine.model
    hidden, layers = model.hidden_size, model.num_hidden_layers
    elements = 2 * layers * hidden**2 + 2 * layers * hidden**2 * _kv_share(engine) + 3 * hidden * model.intermediate_size * layers
    return model.torch_dtype.size_bytes * elements / engine.tensor_parallel / engine.pipeline_parallel / KIB**3


def token_mib(engine: Engine) -> float:
    """KV cache of one token on one card."""
    model = engine.model
    elements = 2 * model.torch_dtype.size_bytes * model.hidden_size * model.num_hidden_layers * _kv_share(engine)
    return elements / engine.tensor_parallel / engine.pipeline_parallel / KIB**2


def memory_gib(engine: Engine, batch: int, tokens: float) -> float:
    """Use of one card that holds `batch` requests of `tokens` tokens."""
    return weights_gib(engine) + (token_mib(engine) / KIB) * batch * tokens


def prefill_batch(engine: Engine, input_tokens: int, slo_ms: float) -> Batch:
    """The largest prefill batch within the objective and the memory."""
    return _largest_batch(
        engine,
        slo_ms,
        time_ms=lambda size: prefill_ms(engine, size, input_tokens),
        memory=lambda size: memory_gib(engine, size, input_tokens),
    )


def decode_batch(engine: Engine, lengths: Lengths, slo_ms: float) -> Batch:
    """The largest decode batch whose step is within the objective and whose final contexts fit the memory."""
    context = lengths.input_tokens + lengths.output_tokens
    return _largest_batch(
        engine,
        slo_ms,
        time_ms=lambda size: decode_step_ms(engine, size, context),
        memory=lambda size: memory_gib(engine, size, context),
    )


def simulate(engine: Engine, lengths: Lengths, objectives: Objectives) -> Abilities:
    """Rates of one instance for this load. All are zero when there is nothing to do (no output, or times of zero)."""
    prefill = prefill_batch(engine, lengths.input_tokens, objectives.prefill_ms)
    decode = decode_batch(engine, lengths, objectives.decode_ms)
    transfer_ms = kv_transfer_ms(engine, lengths.input_tokens)
    transfer = 0.0 if _is_zero(transfer_ms) else 1000 / transfer_ms
    if _is_zero(prefill.time_ms) or _is_zero(decode.time_ms) or lengths.output_tokens == 0:
        return Abilities(0.0, 0.0, transfer, prefill, decode)
    return Abilities(
        prefill=prefill.size / prefill.time_ms * 1000,
        decode=decode.size / decode.time_ms / lengths.output_tokens * 1000,
        transfer=transfer,
        prefill_batch=prefill,
        decode_batch=decode,
    )


def _compute_ms(engine: Engine, rows: float, context: float) -> float:
    model, machine = engine.model, engine.machine
    hidden, layers = model.hidden_size, model.num_hidden_layers
    attention = 2 * hidden**2 * layers * rows + 2 * hidden**2 * layers * _kv_share(engine) * rows + 2 * hidden * layers * rows * context
    feed_forward = 2 * hidden * model.intermediate_size * layers * rows
    speed = machine.compute_tflops * machine.compute_efficiency * 1e12
    return 2 * (attention + feed_forward) / engine.tensor_parallel / engine.pipeline_parallel / speed * 1000


def _fetch_ms(engine: Engine, kv_tokens: float) -> float:
    model, machine = engine.model, engine.machine
    hidden, layers = model.hidden_size, model.num_hidden_layers
    weights = 2 * hidden**2 * layers + 2 * hidden**2 * layers * _kv_share(engine) + 2 * hidden * model.intermediate_size * layers
    cache = 2 * kv_tokens * hidden * layers * _kv_share(engine)
    speed = machine.memory_tib_s * machine.memory_efficiency * KIB**4
    return model.torch_dtype.size_bytes * (weights + cache) / engine.tensor_parallel / engine.pipeline_parallel / speed * 1000


def _collective_ms(engine: Engine, batch: int, rows: float) -> float:
    moving = inter_host_ms(engine) + _intra_host_ms(engine, rows) + pipeline_ms(engine, rows)
    return batch * moving + inter_host_start_ms(engine) + _intra_host_start_ms(engine) + pipeline_start_ms(engine)


def inter_host_ms(engine: Engine) -> float:
    """Tensor-parallel traffic between hosts, per request. Reference only: not scaled to milliseconds."""
    model, hosts = engine.model, _hosts(engine)
    if hosts == 0:
        return 0.0
    return 2 * (hosts - 1) * 2 * model.torch_dtype.size_bytes * model.hidden_size * model.num_hidden_layers / hosts / _network_rate(engine)


def inter_host_start_ms(engine: Engine) -> float:
    """Start-up of the tensor-parallel collectives between hosts."""
    model, hosts = engine.model, _hosts(engine)
    if hosts == 0:
        return 0.0
    return 2 * model.torch_dtype.size_bytes * (hosts - 1) * engine.machine.collective_start_us * model.num_hidden_layers / 1000


def pipeline_ms(engine: Engine, rows: float) -> float:
    """Activations that pass from one pipeline stage to the next, for `rows` tokens."""
    model = engine.model
    return (engine.pipeline_parallel - 1) * rows * model.hidden_size * model.torch_dtype.size_bytes / _network_rate(engine) * 1000


def pipeline_start_ms(engine: Engine) -> float:
    """Start-up of the passes between pipeline stages."""
    return (engine.pipeline_parallel - 1) * engine.machine.collective_start_us / 1000


def _intra_host_ms(engine: Engine, rows: float) -> float:
    model, machine = engine.model, engine.machine
    moved = 2 * model.torch_dtype.size_bytes * rows * model.hidden_size * model.num_hidden_layers
    return moved / (machine.link_gib_s * machine.link_efficiency * KIB**3) * 1000


def _intra_host_start_ms(engine: Engine) -> float:
    return 2 * 2 * engine.machine.collective_start_us * engine.model.num_hidden_layers / 1000


def _hosts(engine: Engine) -> int:
    return engine.tensor_parallel // engine.cards_per_host


def _kv_share(engine: Engine) -> float:
    return engine.model.num_key_value_heads / engine.model.num_attention_heads


def _network_bytes(engine: Engine) -> float:
    """GiB per second."""
    return engine.machine.network_gibit_s * engine.machine.link_efficiency / 8


def _network_rate(engine: Engine) -> float:
    """Bytes per second."""
    return _network_bytes(engine) * KIB**3


def _largest_batch(engine: Engine, slo_ms: float, time_ms: Callable[[int], float], memory: Callable[[int], float]) -> Batch:
    by_slo = _last_true(lambda size: time_ms(size) <= slo_ms)
    high_water = engine.machine.memory_gib * engine.machine.memory_high_water
    size = min(by_slo, _last_true(lambda size: memory(size) < high_water))
    fits = memory(size) < high_water
    return Batch(
        size=size,
        time_ms=time_ms(size),
        memory_gib=memory(size),
        limit=Limit.MEMORY if size < by_slo or not fits else Limit.CAP if size == MAX_BATCH else Limit.SLO,
        meets_slo=time_ms(size) <= slo_ms,
        fits=fits,
    )


def _last_true(holds: Callable[[int], bool]) -> int:
    """Last size from 1 to MAX_BATCH for which a condition that never comes back holds; 1 when it never holds."""
    low, high = 1, 2
    while high <= MAX_BATCH and holds(high):
        low, high = high, high * 2
    high = min(high, MAX_BATCH + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _is_zero(value: float) -> bool:
    return abs(value) < EPSILON
