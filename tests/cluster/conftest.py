# SPDX-License-Identifier: Apache-2.0
"""One control plane for the run, one namespace and one administrator's client for each test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from tests.support.control_plane import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd + kube-apiserver (no kube-controller-manager: nothing collects garbage or makes pods)."""
    plane = ControlPlane(Path(tmp_path_factory.mktemp("control-plane")))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    """An administrator's client without a rate limit worth mentioning."""
    client = KubeClient(load_config(str(control_plane.kubeconfig)), qps=10_000, burst=10_000)
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: KubeClient) -> str:
    """A fresh namespace; it stays until the control plane goes."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name
