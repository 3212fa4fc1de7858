# SPDX-License-Identifier: Apache-2.0
"""One workshop per test, one compiled standard library for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tool_workshop import Workshop


@pytest.fixture(scope="session")
def go_build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("go-build-cache")


@pytest.fixture
def workshop(tmp_path: Path, go_build_cache: Path) -> Workshop:
    return Workshop(tmp_path, go_build_cache)
