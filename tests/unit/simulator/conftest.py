# SPDX-License-Identifier: Apache-2.0
"""A park of real processes for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.simulators import SimulatorPark


@pytest.fixture
async def park(tmp_path: Path) -> AsyncIterator[SimulatorPark]:
    async with SimulatorPark(tmp_path) as park:
        yield park
