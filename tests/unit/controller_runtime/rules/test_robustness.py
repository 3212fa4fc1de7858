# SPDX-License-Identifier: Apache-2.0
"""Whatever a user writes, a rule answers: it never breaks the judge."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.rules import ALL, CROSS, NotKnown, NotKnownError, Rule, judge, judge_all

KEYS = st.sampled_from(
    [
        *(
            "kind",
            "apiVersion",
            "metadata",
            "spec",
            "template",
            "containers",
            "initContainers",
            "securityContext",
            "args",
            "env",
            "name",
            "value",
        ),
        *(
            "data",
            "stringData",
            "items",
            "volumes",
            "volumeMounts",
            "secret",
            "configMap",
            "ports",
            "hostPort",
            "image",
            "capabilities",
            "drop",
            "add",
        ),
        *(
            "annotations",
            "seccompProfile",
            "type",
            "livenessProbe",
            "httpGet",
            "host",
            "tls_enable",
            "x_tls_items",
            "mountPath",
            "reference",
            "ca.key",
        ),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.floats(allow_nan=False),
    st.sampled_from(["Pod", "ConfigMap", "Secret", "List", "ALL", "r/x:1", "--a", "0.0.0.0", '{"a": ["::"]}', "a:\n- b", "x.io/v1"]),
    st.just(NotKnown("somewhere")),
)
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25)
OBJECTS = st.dictionaries(KEYS, TREES, max_size=6)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.slug)
@given(obj=OBJECTS)
def test_a_rule_answers_or_waits_on_any_object(rule: Rule, obj: dict[str, Any]) -> None:
    with suppress(NotKnownError):
        for violation in judge(rule, obj, today=date(2026, 1, 1)):
            assert str(violation)


@given(st.lists(OBJECTS, max_size=4))
def test_a_rule_between_objects_answers_or_waits_on_any_objects(objects: list[dict[str, Any]]) -> None:
    with suppress(NotKnownError):
        list(judge_all(CROSS[0], objects, today=date(2026, 1, 1)))
