# SPDX-License-Identifier: Apache-2.0
"""Kinds and their URLs."""

from __future__ import annotations

import pytest

from controller_runtime.errors import TerminalError
from controller_runtime.kube.kind import CONFIG_MAP, DEPLOYMENT, INSTANCE_SET, NODE, Kind, kind_of, metadata_of


@pytest.mark.parametrize(
    "path, expected",
    [
        (CONFIG_MAP.path("ns", "a"), "/api/v1/namespaces/ns/configmaps/a"),
        (CONFIG_MAP.path(), "/api/v1/configmaps"),
        (DEPLOYMENT.path("ns", "a", "status"), "/apis/apps/v1/namespaces/ns/deployments/a/status"),
        (INSTANCE_SET.path("ns"), "/apis/mindcluster.huawei.com/v1/namespaces/ns/instancesets"),
        (NODE.path(name="n0"), "/api/v1/nodes/n0"),
        (NODE.path("ignored", "n0"), "/api/v1/nodes/n0"),
        (CONFIG_MAP.path("ns", "../../nodes"), "/api/v1/namespaces/ns/configmaps/..%2F..%2Fnodes"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


def test_an_object_names_its_kind() -> None:
    assert kind_of({"apiVersion": "apps/v1", "kind": "Deployment"}) is DEPLOYMENT
    assert kind_of({"apiVersion": "v1", "kind": "Node"}) == Kind("", "v1", "Node", "nodes", namespaced=False)


def test_an_unknown_kind_is_not_guessed() -> None:
    with pytest.raises(TerminalError, match=r"example\.com/v1, kind Thing"):
        kind_of({"apiVersion": "example.com/v1", "kind": "Thing"})


def test_an_object_without_metadata_is_refused() -> None:
    with pytest.raises(TerminalError, match="no metadata"):
        metadata_of({"kind": "ConfigMap"})
