# SPDX-License-Identifier: Apache-2.0
"""Peers on real sockets for the tests of the controller's links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.ms_peers import PeerPark


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[PeerPark]:
    park = PeerPark(tmp_path / "peers")
    yield park
    await park.close()
