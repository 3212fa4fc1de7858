# SPDX-License-Identifier: Apache-2.0
"""The two halves of a completion, timed by the performance model of the role decision.

Prefill runs one prompt at a time and leaves KV bytes in the cache. Decode fetches them from the prefill
Server, then yields one word per step; a step takes longer the more requests share the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from controller_runtime.api.roles import Role
from simulator.completion import count_tokens, decode_words, kv_bytes
from simulator.server.engine import Engine
from simulator.server.faults import FaultKind
from simulator.server.kv_cache import CacheFullError
from simulator.server.links import LinkKeeper
from simulator.server.refused import RefusedError
from simulator.timing import EngineTiming
from simulator.wire import DecodeLine, DecodeRequest, PrefillReply, PrefillRequest, Reason


class Inference:
    """Runs requests on one engine."""

    def __init__(self, engine: Engine, keeper: LinkKeeper, timing: EngineTiming) -> None:
        self._engine = engine
        self._keeper = keeper
        self._timing = timing
        self._prefill_turn = asyncio.Lock()
        self.prefilled_tokens = 0
        self.decoded_tokens = 0

    async def prefill(self, request: PrefillRequest) -> PrefillReply:
        """Compute the KV bytes of a prompt and keep them for one decode Server.

        Raises:
            RefusedError: wrong role, no link with that decode Server, no room, or an injected fault.
        """
        engine = self._engine
        await self._suffer()
        engine.admit(Role.PREFILL)
        if request.decode_id not in engine.peers or not engine.links.stands(request.decode_id):
            reason = engine.links.describe(request.decode_id) if request.decode_id in engine.peers else "it is no peer of this Server"
            raise RefusedError(Reason.NO_LINK, f"KV link to decode Server {request.decode_id}: {reason}. Use another pair.")
        tokens = count_tokens(request.prompt)
        self._check_length(tokens)
        with engine.work(tokens):
            async with self._prefill_turn:
                await self._spend(self._timing.prefill_s(tokens))
            data = await asyncio.to_thread(kv_bytes, engine.spec.model_name, request.prompt)
        try:
            reference = engine.kv.put(data, engine.blocks_of(tokens), request.decode_id)
        except CacheFullError as err:
            raise RefusedError(Reason.FULL, str(err)) from err
        self.prefilled_tokens += tokens
        return PrefillReply(reference=reference, prompt_tokens=tokens, server=engine.name)

    async def decode(self, request: DecodeRequest) -> AsyncGenerator[DecodeLine, None]:
        """Fetch the KV bytes, then yield this Server's name, one word per step, and the finish reason.

        Raises:
            RefusedError: before the first line only: wrong role, no link, unknown reference, no room, injected fault.
        """
        engine = self._engine
        await self._suffer()
        engine.admit(Role.DECODE)
        tokens = count_tokens(request.prompt)
        self._check_length(tokens + request.max_tokens)
        steps = min(request.max_tokens, engine.spec.max_output_len)
        with engine.work(tokens + steps):
            kv = await self._keeper.fetch(request.prefill_id, request.reference)
            await self._spend(self._timing.kv_transfer_s(tokens))
            yield DecodeLine(server=engine.name)
            for step, word in enumerate(decode_words(request.prompt, kv, steps)):
                await engine.faults.wait_while(FaultKind.HANG)
                await engine.resumed.wait()
                await self._spend(self._timing.decode_step_s(batch=engine.running, context_tokens=tokens + step))
                self.decoded_tokens += 1
                yield DecodeLine(word=word)
            yield DecodeLine(finish="length")

    def _check_length(self, tokens: int) -> None:
        if tokens > self._engine.spec.max_seq_len:
            raise RefusedError(
                Reason.BAD_REQUEST, f"Request: {tokens} tokens, the model allows {self._engine.spec.max_seq_len}. Send a shorter prompt."
            )

    async def _suffer(self) -> None:
        await self._engine.faults.wait_while(FaultKind.HANG)
        if self._engine.faults.has(FaultKind.ERROR):
            raise RefusedError(Reason.ENGINE_FAULT, "Engine: an injected fault. Heal it through the admin port.")

    async def _spend(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s * self._engine.faults.slowdown)
