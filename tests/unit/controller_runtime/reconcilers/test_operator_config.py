# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.reconcilers.operator_config import OperatorConfig
from tests.support.objects import config_map


def with_values(*values: str | None) -> OperatorConfig:
    """The switch after the ConfigMap had these values; None: there is none."""
    config = OperatorConfig()
    for value in values:
        config.observe(None, None if value is None else config_map("ns", "infer-operator-config", fault_handling=value))
    return config


@pytest.mark.parametrize(
    "values, is_on",
    [
        ((), True),
        (("true",), True),
        (("false",), False),
        (("false", "true"), True),
        (("false", None), True),
        (("maybe",), True),
        (("false", "maybe"), False),
        (("false", "True"), False),
        (("true", ""), True),
    ],
)
def test_the_last_value_that_is_understood_counts(values: tuple[str | None, ...], is_on: bool) -> None:
    assert with_values(*values).handles_faults() is is_on


def test_a_config_map_without_the_key_switches_on() -> None:
    config = with_values("false")
    config.observe(None, {"metadata": {"name": "infer-operator-config"}})

    assert config.handles_faults()


def test_only_being_switched_on_makes_everybody_look() -> None:
    calls: list[str] = []
    config = OperatorConfig()
    config.on_switch_on(lambda: calls.append("look"))

    for value in ("true", "false", "false", "maybe", "true", "true"):
        config.observe(None, config_map("ns", "infer-operator-config", fault_handling=value))

    assert calls == ["look"]
