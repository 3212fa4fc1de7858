# SPDX-License-Identifier: Apache-2.0
"""Carries one request over a prefill and a decode Server, and over another pair when one of them fails.

Decoding is deterministic, so a request that broke off in the middle starts again on another pair and the
words that the user already has are skipped: a stream goes on without a gap. The KV bytes never pass here.
Seed: coordinator configuration, `exception_config`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar, cast

from pydantic import BaseModel, PositiveFloat, PositiveInt, ValidationError

from controller_runtime.api.base import Model
from controller_runtime.api.coordinator_api import Instance
from controller_runtime.api.server_api import SERVER_SANS
from controller_runtime.errors import AscendPdError, TransportError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.log import get_logger
from simulator.completion import count_tokens
from simulator.coordinator.fleet import Fleet, Pair
from simulator.coordinator.inquiry import Inquiry
from simulator.wire import DECODE_PATH, PREFILL_PATH, DecodeLine, DecodeRequest, PrefillReply, PrefillRequest, Reason, Refusal, ServerName

log = get_logger(__name__)
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class RelaySpec(Model):
    """Bounds of one request."""

    max_retry: PositiveInt = 5
    schedule_timeout_s: PositiveFloat = 2.0
    """How long to wait for a usable pair."""
    first_token_timeout_s: PositiveFloat = 600.0
    token_timeout_s: PositiveFloat = 60.0
    """Longest silence of a decode Server."""
    lost_after_s: PositiveFloat = 2.0
    """Longest silence of a Server that has left the refresh body: a lost node does not close its connections."""


class Trace(Model):
    """Who served a request."""

    prefill: ServerName
    decode: ServerName


@dataclass
class Progress:
    """What is known while a request runs."""

    words: int = 0
    trace: Trace | None = None
    finish: str = ""
    attempts: list[str] = field(default_factory=list)


class NoServersError(AscendPdError):
    """No pair could serve the request. `code` is `no_pair` or `all_pairs_failed`."""

    def __init__(self, code: str, message: str, attempts: list[str]) -> None:
        self.code = code
        self.attempts = attempts
        super().__init__(message)


class BadRequestError(AscendPdError):
    """The Servers say that the request itself is wrong."""


class AttemptFailedError(AscendPdError):
    """This pair could not serve. `culprits`: ids of the Servers to avoid for a while."""

    def __init__(self, message: str, culprits: tuple[int, ...]) -> None:
        self.culprits = culprits
        super().__init__(message)


class Relay:
    """Runs requests against the Servers of a fleet."""

    def __init__(self, fleet: Fleet, client: HttpClient, spec: RelaySpec) -> None:
        self._fleet = fleet
        self._client = client
        self._spec = spec
        self._refreshed = asyncio.Event()
        self.retries = 0

    def wake(self) -> None:
        """Tell waiting requests that the fleet changed: also pairs that failed are worth another try."""
        self._refreshed.set()
        self._refreshed = asyncio.Event()

    async def run(self, request_id: str, inquiry: Inquiry, progress: Progress) -> AsyncGenerator[str, None]:
        """Yield the words; `progress` holds the trace from the first word on and the finish reason at the end.

        Raises:
            BadRequestError: the Servers refuse the request as such.
            NoServersError: no pair is linked, or every try failed.
        """
        failed: set[tuple[int, int]] = set()
        for attempt in range(1 + self._spec.max_retry):
            pair = await self._pair(failed, progress)
            self.retries += attempt > 0
            try:
                async with aclosing(self._attempt(request_id, inquiry, pair, progress)) as words:
                    async for word in words:
                        yield word
            except AttemptFailedError as err:
                failed.add(pair.key)
                self._fleet.suspect(err.culprits)
                progress.attempts.append(str(err))
                log.warning("attempt failed", request=request_id, prefill=pair.prefill.id, decode=pair.decode.id, err=err)
            else:
                return
        raise self._exhausted(progress)

    async def _pair(self, failed: set[tuple[int, int]], progress: Progress) -> Pair:
        try:
            async with asyncio.timeout(self._spec.schedule_timeout_s):
                while (pair := self._fleet.pick(failed)) is None:
                    await self._refreshed.wait()
                    failed.clear()
                return pair
        except TimeoutError as err:
            if progress.attempts:
                raise self._exhausted(progress) from err
            raise NoServersError(
                "no_pair",
                f"No prefill and decode Server are linked ({self._fleet.known} Servers known). Check Controller and Servers.",
                [],
            ) from err

    @staticmethod
    def _exhausted(progress: Progress) -> NoServersError:
        return NoServersError(
            "all_pairs_failed",
            f"No pair of Servers could serve the request; last reason: {progress.attempts[-1]}. Check the Servers named there.",
            progress.attempts,
        )

    async def _attempt(self, request_id: str, inquiry: Inquiry, pair: Pair, progress: Progress) -> AsyncGenerator[str, None]:
        tokens = count_tokens(inquiry.prompt) + inquiry.max_tokens
        with self._fleet.assigned(pair, tokens) as assignment:
            prefilled = await self._prefill(request_id, inquiry, pair)
            skip = progress.words
            async with aclosing(self._decode(request_id, inquiry, pair, prefilled)) as lines:
                async for line in lines:
                    if line.server is not None:
                        assignment.holds_prefill = False
                        progress.trace = Trace(prefill=prefilled.server, decode=line.server)
                    if line.finish is not None:
                        progress.finish = line.finish
                        return
                    if line.word is not None and skip:
                        skip -= 1
                    elif line.word is not None:
                        progress.words += 1
                        yield line.word
        raise AttemptFailedError(f"decode Server {pair.decode.id}: ended without a finish line", (pair.decode.id,))

    async def _prefill(self, request_id: str, inquiry: Inquiry, pair: Pair) -> PrefillReply:
        body = PrefillRequest(request_id=request_id, prompt=inquiry.prompt, decode_id=pair.decode.id)
        where = f"prefill Server {pair.prefill.id}"
        try:
            reply = await self._unless_lost(
                pair.prefill.id,
                self._client.request(
                    "POST",
                    _url(pair.prefill, PREFILL_PATH),
                    json=body.model_dump(),
                    expect_sans=SERVER_SANS,
                    timeout_s=self._spec.first_token_timeout_s,
                ),
            )
        except TransportError as err:
            raise AttemptFailedError(f"{where}: {err}", (pair.prefill.id,)) from err
        if reply.status != 200:
            raise _refused(where, reply.status, reply.body, (pair.prefill.id,))
        return _parsed(PrefillReply, reply.body, where, pair.prefill.id)

    async def _decode(self, request_id: str, inquiry: Inquiry, pair: Pair, prefilled: PrefillReply) -> AsyncGenerator[DecodeLine, None]:
        body = DecodeRequest(
            request_id=request_id,
            prompt=inquiry.prompt,
            reference=prefilled.reference,
            prefill_id=pair.prefill.id,
            max_tokens=inquiry.max_tokens,
        )
        where = f"decode Server {pair.decode.id}"
        statuses: list[int] = []
        reply = self._client.stream(
            "POST",
            _url(pair.decode, DECODE_PATH),
            json=body.model_dump(),
            expect_sans=SERVER_SANS,
            idle_timeout_s=self._spec.token_timeout_s,
            on_answer=statuses.append,
        )
        try:
            async with aclosing(cast(AsyncGenerator[bytes, None], reply)) as lines:
                while (line := await self._unless_lost(pair.decode.id, anext(lines, None))) is not None:
                    if statuses[0] != 200:
                        raise _refused(where, statuses[0], line, (pair.decode.id,))
                    yield _parsed(DecodeLine, line, where, pair.decode.id)
        except TransportError as err:
            raise AttemptFailedError(f"{where}: {err}", (pair.decode.id,)) from err

    async def _unless_lost(self, server_id: int, answer: Awaitable[T]) -> T:
        """Wait for an answer; give up on a Server that stays silent after the Controller took it out."""
        waiting = asyncio.ensure_future(answer)
        try:
            while True:
                is_known = self._fleet.is_known(server_id)
                done, _ = await asyncio.wait({waiting}, timeout=self._spec.lost_after_s)
                if done:
                    return waiting.result()
                if not is_known and not self._fleet.is_known(server_id):
                    raise AttemptFailedError(f"Server {server_id}: silent since the Controller took it out", (server_id,))
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


def _parsed(kind: type[M], body: bytes, where: str, culprit: int) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as err:
        raise AttemptFailedError(f"{where}: answered something that is no {kind.__name__}", (culprit,)) from err


def _refused(where: str, status: int, body: bytes, culprits: tuple[int, ...]) -> AscendPdError:
    try:
        refusal = Refusal.model_validate_json(body)
    except ValidationError:
        return AttemptFailedError(f"{where}: answered {status}", culprits)
    if refusal.reason is Reason.BAD_REQUEST:
        return BadRequestError(refusal.message)
    return AttemptFailedError(f"{where}: {refusal.reason}: {refusal.message}", () if refusal.reason is Reason.NO_LINK else culprits)


def _url(instance: Instance, path: str) -> str:
    host = f"[{instance.ip}]" if ":" in instance.ip else instance.ip
    return f"https://{host}:{instance.port}{path}"
