# SPDX-License-Identifier: Apache-2.0
"""The metrics of this process and the answer to a scrape.

One registry of our own (not the library's global one), so that tests and libraries cannot add to it by accident.
Declare a metric next to the code that changes it: `Counter("name_total", "Meaning.", ["label"], registry=REGISTRY)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from aiohttp import web

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)


async def metrics_response(request: web.Request) -> web.Response:
    """Answer `GET /metrics` in the Prometheus text format."""
    from aiohttp import web

    return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})
