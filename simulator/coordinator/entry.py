# SPDX-License-Identifier: Apache-2.0
"""The inference entry of a simulated Coordinator: users' requests in, answers or a clear error out.

400 not the format, or refused by the model      413 body too large
429 too many requests in work                    503 no pair of Servers could serve it
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram
from pydantic import ValidationError

from controller_runtime.api.coordinator_api import RequestLength
from controller_runtime.foundation.clock import Clock
from controller_runtime.foundation.log import get_logger
from simulator.completion import count_tokens
from simulator.coordinator import answers
from simulator.coordinator.fleet import Fleet
from simulator.coordinator.inquiry import Inquiry, Style, read_inquiry
from simulator.coordinator.relay import BadRequestError, NoServersError, Progress, Relay

LENGTH_WINDOW: Final = 1000
"""Finished requests that the mean lengths are taken over."""

MIB: Final = 1024 * 1024
FLOW_WINDOW_S: Final = 10.0

log = get_logger(__name__)


class Entry:
    """Handlers of the inference port."""

    def __init__(self, fleet: Fleet, relay: Relay, clock: Clock, model: str, max_requests: int, registry: CollectorRegistry) -> None:
        self._fleet = fleet
        self._relay = relay
        self._clock = clock
        self._model = model
        self._max_requests = max_requests
        self._lengths: deque[tuple[int, int]] = deque(maxlen=LENGTH_WINDOW)
        self._arrivals: deque[float] = deque(maxlen=LENGTH_WINDOW)
        self._open = 0
        self._results = Counter("sim_coordinator_requests_total", "Requests by outcome.", ["outcome"], registry=registry)
        self._seconds = Histogram("sim_coordinator_request_seconds", "Time from request to last word.", registry=registry)

    def app(self, body_limit_mib: int) -> web.Application:
        """Build the application."""
        app = web.Application(client_max_size=body_limit_mib * MIB)
        for style in Style:
            app.router.add_post(style.value, self._handler(style))
        return app

    @property
    def mean_length(self) -> RequestLength:
        """Mean token counts of the last finished requests; zero when there were none."""
        count = len(self._lengths) or 1
        return RequestLength(
            input_len=round(sum(one[0] for one in self._lengths) / count), output_len=round(sum(one[1] for one in self._lengths) / count)
        )

    @property
    def recent_flow(self) -> int:
        """Requests that came in during the last ten seconds."""
        since = self._clock.monotonic() - FLOW_WINDOW_S
        return sum(1 for at in self._arrivals if at >= since)

    def _handler(self, style: Style) -> Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._arrivals.append(self._clock.monotonic())
            if self._open >= self._max_requests:
                return self._failed(429, "too_many_requests", f"{self._open} requests are in work, the limit. Try again later.")
            try:
                inquiry = read_inquiry(style, await request.read())
            except ValidationError as err:
                return self._failed(400, "bad_request", "; ".join(f"{_place(item['loc'])}: {item['msg']}" for item in err.errors()))
            except web.HTTPRequestEntityTooLarge as err:
                return self._failed(413, "body_too_large", err.text or "The body is too large. Send a shorter prompt.")
            self._open += 1
            try:
                return await self._serve(request, inquiry)
            finally:
                self._open -= 1

        return handle

    async def _serve(self, request: web.Request, inquiry: Inquiry) -> web.StreamResponse:
        request_id = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        started = self._clock.monotonic()
        progress = Progress()
        try:
            if inquiry.is_stream:
                response = await self._stream(request, request_id, inquiry, progress)
            else:
                response = await self._whole(request_id, inquiry, progress)
        except BadRequestError as err:
            return self._failed(400, "bad_request", str(err))
        except NoServersError as err:
            return self._failed(503, err.code, str(err), err.attempts)
        if progress.finish:
            self._lengths.append((count_tokens(inquiry.prompt), progress.words))
            self._results.labels("ok").inc()
            self._seconds.observe(self._clock.monotonic() - started)
        return response

    async def _whole(self, request_id: str, inquiry: Inquiry, progress: Progress) -> web.Response:
        async with aclosing(self._relay.run(request_id, inquiry, progress)) as words:
            text = " ".join([word async for word in words])
        body = answers.whole_answer(request_id, self._model, self._created(), inquiry, text, progress)
        return web.json_response(body, headers=answers.trace_headers(progress.trace))

    async def _stream(self, request: web.Request, request_id: str, inquiry: Inquiry, progress: Progress) -> web.StreamResponse:
        """Send events as words come. Before the first word a failure is still an HTTP status; later it is an event."""
        created = self._created()
        response: web.StreamResponse | None = None
        async with aclosing(self._relay.run(request_id, inquiry, progress)) as words:
            try:
                async for word in words:
                    text = word if response is None else f" {word}"
                    if response is None:
                        headers = {"Content-Type": "text/event-stream", **answers.trace_headers(progress.trace)}
                        response = web.StreamResponse(headers=headers)
                        await response.prepare(request)
                    await response.write(answers.word_event(request_id, self._model, created, inquiry, text))
            except (BadRequestError, NoServersError) as err:
                if response is None:
                    raise
                self._results.labels("broken_off").inc()
                log.warning("stream broke off", request=request_id, words=progress.words, err=err)
                code = err.code if isinstance(err, NoServersError) else "bad_request"
                await response.write(answers.error_event(answers.error_body(code, str(err), progress.attempts)))
                await response.write_eof()
                return response
        if response is None:
            raise NoServersError("all_pairs_failed", "The Servers finished without a word. Check the decode Server.", progress.attempts)
        await response.write(answers.last_event(request_id, self._model, created, inquiry, progress))
        await response.write(answers.STREAM_END)
        await response.write_eof()
        return response

    def _created(self) -> int:
        return int(self._clock.now().timestamp())

    def _failed(self, status: int, code: str, message: str, attempts: list[str] | None = None) -> web.Response:
        self._results.labels(code).inc()
        return web.json_response(answers.error_body(code, message, attempts), status=status)


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc) or "body"
