# SPDX-License-Identifier: Apache-2.0
"""One lab of real nodes for the run, one namespace for each test."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_lab import CHECKOUT, RealLab, images, until
from tools.file_lock import locked_if_free


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the archive of the runtime image, whose Python the tests' pods run. Images that are not current are built."""
    built = subprocess.run([sys.executable, "-m", "images"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    folder = tmp_path_factory.mktemp("archives")
    (folder / "runtime.tar").symlink_to(images()["runtime"]["archive"])
    return folder


@pytest.fixture(scope="session")
def image() -> str:
    """Reference by digest of an image with Python."""
    return images()["runtime"]["reference"]


@pytest.fixture(scope="session")
def lab(archives: Path) -> Iterator[RealLab]:
    """The lab `test`: three infra nodes, one prefill, one decode."""
    lab = RealLab("test")
    with locked_if_free(Path(tempfile.gettempdir()) / "ascend-pd-test-lab.lock") as is_ours:
        assert is_ours, "another process runs tests on the lab `test`; pytest-xdist needs --dist loadgroup"
        lab.run("down")
        try:
            lab.run("up", "--images", str(archives))
            yield lab
        finally:
            lab.run("down")


@pytest.fixture
def namespace(lab: RealLab) -> Iterator[str]:
    """A fresh namespace that is ready for bare pods; deleted afterwards."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    lab.kubectl("create", "namespace", name)
    until("default service account", lambda: lab.try_run("kubectl", "-n", name, "get", "serviceaccount", "default").code == 0)
    yield name
    lab.kubectl("delete", "namespace", name, "--wait=false")
