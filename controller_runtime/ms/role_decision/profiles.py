# SPDX-License-Identifier: Apache-2.0
"""What the decision must know about a model and a machine, and the profiles we ship.

Field names are ours; aliases are the manual's keys, so a file written for the manual is read as it is.
Numbers may be numeric strings, as in the files users have. Unknown keys are ignored: shipped files carry
`BW_RDMAeff`, which no formula uses.
Seed: controller manual, table 5 (model file) and table 6 (hardware file).
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from controller_runtime.api.base import Model, WireModel
from controller_runtime.api.problems import from_validation
from controller_runtime.errors import ConfigError


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is a boolean, a number is needed. Write a number")  # noqa: TRY004 pydantic reports ValueErrors only
    return value


Quantity = Annotated[float, BeforeValidator(_refuse_bool), Field(ge=1e-6, le=2147483647.0, allow_inf_nan=False)]
Efficiency = Annotated[float, BeforeValidator(_refuse_bool), Field(ge=1e-6, le=1.0, allow_inf_nan=False)]


class ElementType(StrEnum):
    """Number format of weights and KV cache."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return 2


class ModelProfile(WireModel):
    """Shape of a dense decoder: every attribute is a count, or a width in elements."""

    hidden_size: Quantity
    intermediate_size: Quantity
    num_attention_heads: Quantity
    num_hidden_layers: Quantity
    num_key_value_heads: Quantity
    torch_dtype: ElementType
    initializer_range: Quantity
    """In the file, in no formula."""
    max_position_embeddings: Quantity
    """In the file, in no formula."""


class MachineProfile(WireModel):
    """One accelerator card and its links. Bytes count in powers of 1024, FLOPs in powers of 1000."""

    link_gib_s: Quantity = Field(alias="BW_GB")
    """Card to card inside a host."""
    network_gibit_s: Quantity = Field(alias="BW_RDMA_Gb")
    """Between hosts, per card."""
    link_efficiency: Efficiency = Field(alias="BWeff")
    """Of both links."""
    compute_tflops: Quantity = Field(alias="TFLOPS")
    compute_efficiency: Efficiency = Field(alias="TFLOPSeff")
    memory_tib_s: Quantity = Field(alias="MBW_TB")
    memory_efficiency: Efficiency = Field(alias="MBW_TBeff")
    collective_start_us: Quantity = Field(alias="alpha")
    memory_gib: Quantity = Field(alias="MEMCapacity")
    memory_high_water: Efficiency = Field(alias="eta_OOM")
    """Share of `memory_gib` that may be in use."""
    transfer_start_s: Quantity = Field(alias="staticTransferDelay")
    """Per transfer operation."""


class Engine(Model):
    """One instance: a model on the cards of a machine, cut by tensor and pipeline parallelism."""

    model: ModelProfile
    machine: MachineProfile
    tensor_parallel: Annotated[int, Field(ge=1, le=65535)] = 8
    pipeline_parallel: Annotated[int, Field(ge=1, le=65535)] = 1
    cards_per_host: Annotated[int, Field(ge=1, le=65535)] = 8


def parse_model(text: str | bytes, where: str) -> ModelProfile:
    """Read a model file (JSON text). `where` names it in problems.

    Raises ConfigError with every problem: a missing key, a number out of range, an unknown `torch_dtype`.
    """
    return _parse(ModelProfile, text, where)


def parse_machine(text: str | bytes, where: str) -> MachineProfile:
    """Read a hardware file (JSON text). `where` names it in problems. Raises ConfigError with every problem."""
    return _parse(MachineProfile, text, where)


Profile = TypeVar("Profile", ModelProfile, MachineProfile)


def _parse(kind: type[Profile], text: str | bytes, where: str) -> Profile:
    try:
        return kind.model_validate_json(text)
    except ValidationError as err:
        raise ConfigError([problem.sentence(where) for problem in from_validation(err)]) from err


def _llama_like(hidden: int, intermediate: int, heads: int, layers: int, kv_heads: int) -> ModelProfile:
    return ModelProfile(
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_hidden_layers=layers,
        num_key_value_heads=kv_heads,
        torch_dtype=ElementType.FLOAT16,
        initializer_range=0.02,
        max_position_embeddings=4096,
    )


MODELS: Final = MappingProxyType(
    {
        # The manual's table prints hidden_size 8129, a misprint of 8192: llama2-70B is 64 heads of 128.
        "llama2-70B": _llama_like(8192, 28672, 64, 80, 8),
        "llama3-70B": _llama_like(8192, 28672, 64, 80, 8),
        "llama2-7B": _llama_like(4096, 11008, 32, 32, 32),
        "pangupi-7B": _llama_like(4096, 11008, 32, 29, 32),
        "deepseek-v2-16B": _llama_like(2048, 10944, 16, 27, 16),
        "deepseek-v2-236B": _llama_like(5120, 12288, 128, 60, 128),
        "deepseek-tencent-1.4T": _llama_like(8192, 22016, 128, 80, 128),
    }
)


def _machine(compute_tflops: int, memory_tib_s: float, memory_gib: int) -> MachineProfile:
    return MachineProfile(
        link_gib_s=392,
        network_gibit_s=200,
        link_efficiency=0.5,
        compute_tflops=compute_tflops,
        compute_efficiency=0.5,
        memory_tib_s=memory_tib_s,
        memory_efficiency=0.3,
        collective_start_us=2,
        memory_gib=memory_gib,
        memory_high_water=0.9,
        transfer_start_s=0.00001,
    )


MACHINES: Final = MappingProxyType({"800I-A2": _machine(246, 0.8, 32), "800T-A2": _machine(295, 1.6, 64)})
