# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from typing import Any

import pytest

from controller_runtime.rules.certainty import NotKnown, NotKnownError
from controller_runtime.rules.settings import settings


def pod(**container: Any) -> dict[str, Any]:
    return {"kind": "Pod", "spec": {"containers": [{"name": "a", "image": "r/x:1", **container}]}}


def config(**part: Any) -> dict[str, Any]:
    return {"kind": "ConfigMap", **part}


def pairs(obj: dict[str, Any]) -> list[tuple[str, object]]:
    return [(setting.name, setting.value) for setting in settings(obj)]


@pytest.mark.parametrize(
    "args,expected",
    [
        (["--a=1"], [("a", "1")]),
        (["--a", "1"], [("a", "1")]),
        (["-a", "--b=2"], [("a", True), ("b", "2")]),
        (["--last"], [("last", True)]),
        (["serve", "a=b=c"], [("", "serve"), ("a", "b=c")]),
        (["sh", "-c", "exec x --a '1 2' && y --b=\"3\""], [("", "sh"), ("c", "exec"), ("", "x"), ("a", "1 2"), ("", "y"), ("b", "3")]),
    ],
)
def test_arguments_are_paired_with_their_flags(args: list[str], expected: list[tuple[str, object]]) -> None:
    assert pairs(pod(args=args)) == expected


def test_a_value_in_the_next_word_has_its_own_place() -> None:
    (setting,) = settings(pod(args=["--a", "1"]))

    assert setting.place == "spec.containers[a].args[1]"


def test_only_literal_environment_values_are_settings() -> None:
    entries = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "C"}]

    assert pairs(pod(env=entries)) == [("A", "1")]


def test_probes_and_hooks_are_read() -> None:
    container = pod(
        startupProbe={"exec": {"command": ["--a=1"]}},
        lifecycle={"postStart": {"httpGet": {"host": "h"}}},
        livenessProbe={"tcpSocket": {"host": "i"}},
    )

    assert sorted(pairs(container)) == [("a", "1"), ("host", "h"), ("host", "i")]


@pytest.mark.parametrize(
    "text,expected",
    [
        ('{"a": {"b": [1, {"c": "x"}]}}', [("b", 1), ("c", "x")]),
        ('{"a": "{\\"b\\": 1}"}', [("b", 1)]),
        ("a:\n  - b: 1\n", [("b", 1)]),
        ("a: 1\n---\nb: 2\n", [("a", 1), ("b", 2)]),
        ("true", [("file", True)]),
        ("plain", [("file", "plain"), ("", "plain")]),
        ("[s]\nkey = 'v'\n", [("key", "v"), ("", "[s]"), ("", "key"), ("", ""), ("", "v")]),
    ],
)
def test_files_are_read_in_their_own_format(text: str, expected: list[tuple[str, object]]) -> None:
    assert pairs(config(data={"file": text})) == expected


def test_binary_data_is_decoded() -> None:
    assert pairs(config(binaryData={"f": base64.b64encode(b'{"a": 1}').decode()})) == [("a", 1)]


def test_values_of_secrets_are_never_read() -> None:
    assert pairs({"kind": "Secret", "stringData": {"a": "1"}, "data": {"b": "Mg=="}}) == []


@pytest.mark.parametrize(
    "obj",
    [
        pod(args=["--a=1", NotKnown("args[1]"), "--b=2"], env=[{"name": "E", "value": NotKnown("env")}, {"name": "F", "value": "3"}]),
        {"kind": "ConfigMap", "data": {"x": NotKnown("x"), "a": "1"}},
        {"kind": "ConfigMap", "data": NotKnown("data"), "binaryData": {"a": "MQ=="}},
    ],
)
def test_known_settings_come_before_the_error_for_unknown_ones(obj: dict[str, Any]) -> None:
    seen: list[object] = []
    with pytest.raises(NotKnownError):
        seen.extend(settings(obj))

    assert seen


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"kind": None, "metadata": None, "spec": 3},
        {"kind": "ConfigMap", "data": []},
        {"kind": "ConfigMap", "data": {"a": 1, "b": None}},
        {"kind": "Pod", "spec": {"containers": [{"name": "a", "args": "text", "env": {"a": 1}, "ports": 1, "securityContext": []}]}},
        {"kind": "PodList", "items": ["x", None]},
    ],
)
def test_objects_of_the_wrong_shape_are_read_as_far_as_they_go(obj: dict[str, Any]) -> None:
    list(settings(obj))
