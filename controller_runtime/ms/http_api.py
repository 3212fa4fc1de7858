# SPDX-License-Identifier: Apache-2.0
"""What a controller serves: the manual's two probes, and our own readiness and metrics on another port.

The probes answer as soon as the process runs, leader or not. Unknown paths, methods and targets get exactly the
manual's replies. Seed: controller manual, RESTful interfaces.
"""

from __future__ import annotations

import html

from aiohttp import web

from controller_runtime.foundation.metrics import metrics_response
from controller_runtime.ms.readiness import Readiness

STARTUP_PATH = "/v1/startup"
HEALTH_PATH = "/v1/health"
READINESS_PATH = "/v1/readiness"
METRICS_PATH = "/metrics"
MAX_BODY_BYTES = 10 * 1024 * 1024


def probe_app() -> web.Application:
    """`GET /v1/startup` and `GET /v1/health`: 200 and `{"message": "", "status": "0"}`."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_route("*", "/{tail:.*}", _probe)
    return app


def status_app(readiness: Readiness) -> web.Application:
    """`GET /v1/readiness`: 200 or 503 with the state; `GET /metrics`."""

    async def ready(_request: web.Request) -> web.Response:
        state = readiness.state
        body = {"message": readiness.reason, "status": "0" if state.is_ready else "1", "state": state.value}
        return web.json_response(body, status=200 if state.is_ready else 503)

    app = web.Application()
    app.router.add_get(READINESS_PATH, ready)
    app.router.add_get(METRICS_PATH, metrics_response)
    return app


async def _probe(request: web.Request) -> web.Response:
    target = request.raw_path
    if request.method not in ("GET", "POST", "DELETE"):
        return _page("Unknown Http-method", 400)
    path = target.partition("?")[0]
    if not path.startswith("/") or ".." in path:
        return _page("Illegal request-target", 400)
    if request.method == "GET" and path in (STARTUP_PATH, HEALTH_PATH):
        return web.json_response({"message": "", "status": "0"})
    return _page(f"Cannot find the resource {html.escape(target)}", 404)


def _page(text: str, status: int) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")
