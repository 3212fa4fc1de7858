# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from controller_runtime.ms.http_api import probe_app, status_app
from controller_runtime.ms.readiness import ControllerState, Readiness


async def ask(method: str, target: str) -> tuple[int, str, str]:
    """Status, content type and body of the probe listener's answer."""
    app = probe_app()
    app.freeze()
    request = make_mocked_request(method, target, app=app)
    match = await app.router.resolve(request)
    answer = await match.handler(request)
    assert isinstance(answer, web.Response)
    return answer.status, answer.content_type, answer.text or ""


@pytest.mark.parametrize("target", ["/v1/startup", "/v1/health", "/v1/health?verbose=1"])
async def test_the_probes_answer_what_the_manual_says(target: str) -> None:
    code, kind, body = await ask("GET", target)

    assert (code, kind, json.loads(body)) == (200, "application/json", {"message": "", "status": "0"})


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/v1/healthXYZ", (404, "text/html", "Cannot find the resource /v1/healthXYZ")),
        ("GET", "/", (404, "text/html", "Cannot find the resource /")),
        ("POST", "/v1/health", (404, "text/html", "Cannot find the resource /v1/health")),
        ("DELETE", "/v1/health", (404, "text/html", "Cannot find the resource /v1/health")),
        ("PUT", "/v1/health", (400, "text/html", "Unknown Http-method")),
        ("HEAD", "/v1/health", (400, "text/html", "Unknown Http-method")),
        ("GET", "/v1/../v1/health", (400, "text/html", "Illegal request-target")),
        ("GET", "/<script>", (404, "text/html", "Cannot find the resource /&lt;script&gt;")),
    ],
)
async def test_anything_else_gets_the_manuals_refusal(method: str, target: str, expected: tuple[int, str, str]) -> None:
    assert await ask(method, target) == expected


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (ControllerState.INITIALISING, 503),
        (ControllerState.DEGRADED, 503),
        (ControllerState.STANDBY, 200),
        (ControllerState.LEADER, 200),
    ],
)
async def test_readiness_says_what_the_controller_is_doing(state: ControllerState, code: int) -> None:
    readiness = Readiness()
    app = status_app(readiness)
    app.freeze()
    readiness.set(state, "because")
    request = make_mocked_request("GET", "/v1/readiness", app=app)

    match = await app.router.resolve(request)
    answer = await match.handler(request)

    assert isinstance(answer, web.Response)
    assert answer.status == code
    assert json.loads(answer.text or "")["state"] == state.value
