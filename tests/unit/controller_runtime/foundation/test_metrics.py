# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from aiohttp.test_utils import make_mocked_request
from prometheus_client import Counter

from controller_runtime.foundation.metrics import REGISTRY, metrics_response


async def test_a_scrape_shows_our_metrics_and_the_process() -> None:
    counter = Counter("test_scrapes_total", "Made by this test.", registry=REGISTRY)
    counter.inc()
    try:
        response = await metrics_response(make_mocked_request("GET", "/metrics"))
    finally:
        REGISTRY.unregister(counter)

    assert response.content_type == "text/plain"
    assert isinstance(response.body, bytes)
    assert b"test_scrapes_total 1.0" in response.body
    assert b"process_resident_memory_bytes" in response.body
