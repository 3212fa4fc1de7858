# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from lab.state import Lab
from lab.topology import nodes_of


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Lab number 4 with an infra and a decode node; its folder is in the test's own."""
    return Lab("mine", 4, nodes_of({"infra": 1, "decode": 1}), 0, tmp_path / "bin", tmp_path)
