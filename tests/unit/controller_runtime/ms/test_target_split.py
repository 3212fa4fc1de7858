# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from controller_runtime.api.ms_config import TlsLink
from controller_runtime.api.ms_config_sample import manual_sample
from controller_runtime.api.roles import Role
from controller_runtime.errors import ConfigError
from controller_runtime.ms.config import Settings, load
from controller_runtime.ms.role_decision import MACHINES, MODELS, DecisionInputs, Engine, Split, decide
from controller_runtime.ms.target_split import target_split
from tests.support.ms_builders import as_bytes, spec


def settings(directory: Path, *, has_profiles: bool = True, **environment: str) -> Settings:
    config = manual_sample() | {
        "digs_model_config_path": f"{directory}/model.json",
        "digs_machine_config_path": f"{directory}/machine.json",
    }
    for link in TlsLink:
        config["tls_config"][f"{link}_tls_enable"] = False
    (directory / "ms_controller.json").write_bytes(as_bytes(config))
    if has_profiles:
        (directory / "model.json").write_text(MODELS["llama2-70B"].model_dump_json(by_alias=True))
        (directory / "machine.json").write_text(MACHINES["800I-A2"].model_dump_json(by_alias=True))
    for file in directory.iterdir():
        file.chmod(0o640)
    return load(environment, str(directory / "ms_controller.json"))


def test_given_rates_need_no_model(tmp_path: Path) -> None:
    by = settings(tmp_path, has_profiles=False, MINDIE_MS_P_RATE="1", MINDIE_MS_D_RATE="3")

    assert target_split(by, [spec(number) for number in range(8)]) == Split(2, 6)


def test_without_rates_the_role_decision_gives_the_counts(tmp_path: Path) -> None:
    engine = Engine(model=MODELS["llama2-70B"], machine=MACHINES["800I-A2"], tensor_parallel=1)
    expected = decide(DecisionInputs(instances=10, engine=engine)).split

    assert target_split(settings(tmp_path), [spec(number) for number in range(10)]) == expected


def test_fixed_roles_need_no_target(tmp_path: Path) -> None:
    assert target_split(settings(tmp_path, has_profiles=False), [spec(1, Role.PREFILL), spec(2, Role.DECODE)]) is None


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.json cannot be read"):
        target_split(settings(tmp_path, has_profiles=False), [spec(1), spec(2)])
