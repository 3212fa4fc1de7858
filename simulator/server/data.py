# SPDX-License-Identifier: Apache-2.0
"""Data, KV and metrics ports of a simulated Server.

The data port talks to Coordinators, the KV port to other Servers only. Decode replies are JSON lines,
so a word leaves the Server in the step that produced it.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from controller_runtime.api.roles import Role
from simulator.server.engine import Engine
from simulator.server.inference import Inference
from simulator.server.kv_cache import UnknownReferenceError
from simulator.server.management import refusals, reply
from simulator.server.refused import RefusedError
from simulator.wire import (
    DECODE_PATH,
    KV_PATH,
    LINK_PATH,
    PREFILL_PATH,
    DecodeLine,
    DecodeRequest,
    KvRequest,
    LinkRequest,
    PrefillRequest,
    Reason,
)

BODY_LIMIT_BYTES: Final = 24 * 1024 * 1024
"""Largest body a Coordinator lets through is 20 MB. Seed: coordinator configuration, `body_limit`."""

COORDINATOR_SANS: Final = ("ms-coordinator.*",)


def data_app(inference: Inference) -> web.Application:
    """Build the data port: prefill and decode."""

    async def prefill(request: web.Request) -> web.StreamResponse:
        return reply(await inference.prefill(PrefillRequest.model_validate_json(await request.read())))

    async def decode(request: web.Request) -> web.StreamResponse:
        wanted = DecodeRequest.model_validate_json(await request.read())
        async with aclosing(inference.decode(wanted)) as lines:
            first = await anext(lines)
            response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
            await response.prepare(request)
            await response.write(_line(first))
            async for line in lines:
                await response.write(_line(line))
        await response.write_eof()
        return response

    app = web.Application(middlewares=[refusals], client_max_size=BODY_LIMIT_BYTES)
    app.router.add_post(PREFILL_PATH, prefill)
    app.router.add_post(DECODE_PATH, decode)
    return app


def kv_app(engine: Engine) -> web.Application:
    """Build the KV port: knocks of decode Servers and the bytes they fetch."""

    def check_link(decode_id: int) -> None:
        if engine.faults.cuts(decode_id):
            raise RefusedError(Reason.NO_LINK, "link cut by an injected fault")
        if engine.role not in (Role.PREFILL, Role.FLEX) or decode_id not in engine.peers:
            raise RefusedError(Reason.WRONG_ROLE, f"decode Server {decode_id} is no peer of this {engine.role.word} Server")

    async def link(request: web.Request) -> web.StreamResponse:
        knock = LinkRequest.model_validate_json(await request.read())
        check_link(knock.decode_id)
        if knock.prefill_id != engine.name.id:
            raise RefusedError(Reason.WRONG_ROLE, f"this Server has id {engine.name.id}, not {knock.prefill_id}")
        engine.links.note_heard(knock.decode_id)
        return reply(engine.name)

    async def fetch(request: web.Request) -> web.StreamResponse:
        wanted = KvRequest.model_validate_json(await request.read())
        check_link(wanted.decode_id)
        try:
            data = engine.kv.take(wanted.reference, wanted.decode_id)
        except UnknownReferenceError as err:
            raise RefusedError(Reason.UNKNOWN_REFERENCE, str(err)) from err
        return web.Response(body=data, content_type="application/octet-stream")

    app = web.Application(middlewares=[refusals])
    app.router.add_post(LINK_PATH, link)
    app.router.add_post(KV_PATH, fetch)
    return app


def metrics_app(engine: Engine, inference: Inference) -> web.Application:
    """Build the metrics port."""
    registry = CollectorRegistry()
    for name, help_text, read in (
        ("sim_server_running_requests", "Requests in work.", lambda: engine.running),
        ("sim_server_free_slots", "Requests that still fit.", lambda: engine.free_slots),
        ("sim_server_free_blocks", "Free cache blocks.", lambda: engine.free_blocks),
        ("sim_server_links", "Standing links with peers.", lambda: sum(engine.links.stands(peer) for peer in engine.peers)),
        ("sim_server_prefilled_tokens", "Prompt tokens computed since the start.", lambda: inference.prefilled_tokens),
        ("sim_server_decoded_tokens", "Words produced since the start.", lambda: inference.decoded_tokens),
    ):
        Gauge(name, help_text, registry=registry).set_function(read)

    async def metrics(request: web.Request) -> web.StreamResponse:
        return web.Response(body=generate_latest(registry), content_type="text/plain")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


def _line(line: DecodeLine) -> bytes:
    return line.model_dump_json(exclude_none=True).encode() + b"\n"
