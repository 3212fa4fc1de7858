# SPDX-License-Identifier: Apache-2.0
"""Small Kubernetes objects for tests."""

from __future__ import annotations

from controller_runtime.kube.kind import Object


def config_map(namespace: str, name: str, labels: dict[str, str] | None = None, **data: str) -> Object:
    """A ConfigMap with `data`."""
    metadata: Object = {"namespace": namespace, "name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(namespace: str, name: str, replicas: int = 1) -> Object:
    """A Deployment of one container that is never pulled in these tests."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example/none"}]}},
        },
    }
