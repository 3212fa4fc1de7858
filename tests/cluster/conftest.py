# SPDX-License-Identifier: Apache-2.0
"""One control plane for the run, one namespace for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

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
def namespace(control_plane: ControlPlane) -> str:
    """A fresh namespace; it stays until the control plane goes."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    control_plane.kubectl("create", "namespace", name)
    return name
