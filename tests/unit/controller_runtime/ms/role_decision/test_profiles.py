# SPDX-License-Identifier: Apache-2.0
"""Model and hardware files: ranges, spellings, refusals."""

from __future__ import annotations

import json

import pytest

from controller_runtime.errors import ConfigError
from controller_runtime.ms.role_decision import MACHINES, MODELS, parse_machine, parse_model

MODEL = {
    "hidden_size": 8192,
    "initializer_range": 0.02,
    "intermediate_size": 28672,
    "max_position_embeddings": 4096,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "torch_dtype": "float16",
}
MACHINE = {
    "BW_GB": 392,
    "BW_RDMA_Gb": 200,
    "BWeff": 0.5,
    "BW_RDMAeff": 0.5,
    "TFLOPS": 246,
    "TFLOPSeff": 0.5,
    "MBW_TB": 0.8,
    "MBW_TBeff": 0.3,
    "alpha": 2,
    "MEMCapacity": 32,
    "eta_OOM": 0.9,
    "staticTransferDelay": 0.00001,
}
EFFICIENCIES = ("BWeff", "TFLOPSeff", "MBW_TBeff", "eta_OOM")
MODEL_NUMBERS = tuple(key for key in MODEL if key != "torch_dtype")
MACHINE_NUMBERS = tuple(key for key in MACHINE if key != "BW_RDMAeff")


def test_the_manuals_files_are_the_shipped_profiles() -> None:
    assert parse_model(json.dumps(MODEL), "model") == MODELS["llama2-70B"]
    assert parse_machine(json.dumps(MACHINE), "machine") == MACHINES["800I-A2"]


def test_numbers_may_be_strings() -> None:
    texts = {key: str(value) for key, value in MACHINE.items()}

    assert parse_machine(json.dumps(texts), "machine") == MACHINES["800I-A2"]
    assert parse_model(json.dumps({key: str(value) for key, value in MODEL.items()}), "model") == MODELS["llama2-70B"]


BAD_NUMBERS = (-1, 0, 2147483647.1, 1e-7, True, "abc", "nan", None)


@pytest.mark.parametrize("bad", [*BAD_NUMBERS, "-1", "2147483647.1", "1e-7"])
@pytest.mark.parametrize("key", MODEL_NUMBERS)
def test_v50_a_model_number_out_of_range_is_refused(key: str, bad: object) -> None:
    with pytest.raises(ConfigError, match=rf"llama.json.{key}"):
        parse_model(json.dumps({**MODEL, key: bad}), "llama.json")


@pytest.mark.parametrize("bad", [*BAD_NUMBERS, "-1", "2147483647.1", "1e-7"])
@pytest.mark.parametrize("key", MACHINE_NUMBERS)
def test_v50_a_machine_number_out_of_range_is_refused(key: str, bad: object) -> None:
    with pytest.raises(ConfigError, match=rf"npu.json.{key}"):
        parse_machine(json.dumps({**MACHINE, key: bad}), "npu.json")


@pytest.mark.parametrize("key", EFFICIENCIES)
@pytest.mark.parametrize("bad", [1.1, "1.1"])
def test_v50_an_efficiency_above_one_is_refused(key: str, bad: object) -> None:
    with pytest.raises(ConfigError, match=key):
        parse_machine(json.dumps({**MACHINE, key: bad}), "npu.json")


@pytest.mark.parametrize("value", [0.000001, 2147483647.0])
def test_both_ends_of_the_range_are_allowed(value: float) -> None:
    assert parse_machine(json.dumps({**MACHINE, "alpha": value}), "npu.json").collective_start_us == value


@pytest.mark.parametrize("key", MODEL)
def test_v50_a_missing_model_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}: is required. Add it."):
        parse_model(json.dumps({name: value for name, value in MODEL.items() if name != key}), "llama.json")


@pytest.mark.parametrize("key", MACHINE_NUMBERS)
def test_v50_a_missing_machine_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}"):
        parse_machine(json.dumps({name: value for name, value in MACHINE.items() if name != key}), "npu.json")


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_machine(json.dumps({**MACHINE, "alpha": 0, "BWeff": 2}), "npu.json")

    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_v39_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"npu\.json"):
        parse_machine(text, "npu.json")


@pytest.mark.parametrize("dtype,refused", [("float16", False), ("bfloat16", False), ("float32", True)])
def test_only_sixteen_bit_types_are_known(dtype: str, refused: bool) -> None:
    text = json.dumps({**MODEL, "torch_dtype": dtype})
    if refused:
        with pytest.raises(ConfigError, match="torch_dtype"):
            parse_model(text, "llama.json")
    else:
        assert parse_model(text, "llama.json").torch_dtype.size_bytes == 2
