# SPDX-License-Identifier: Apache-2.0
"""Settings of the whole test run."""

from __future__ import annotations

import asyncio


def pytest_configure() -> None:
    """Let no plugin create an event loop for a test that needs none: nobody would close it, and warnings are errors here."""
    asyncio.set_event_loop(None)
