# SPDX-License-Identifier: Apache-2.0
"""Links between prefill and decode Servers, as seen from one end.

A decode Server knocks at the KV port of each prefill peer once a period, over mutual TLS. Its end of the
link stands while the last knock was answered; the prefill end stands while knocks keep coming. A link
that does not stand has a reason, which the status interface reports in place of `ok`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from controller_runtime.api.roles import Role
from controller_runtime.api.server_api import LINK_OK, SERVER_SANS
from controller_runtime.errors import TransportError
from controller_runtime.foundation.clock import Clock
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.log import get_logger
from simulator.server.faults import FaultBoard
from simulator.server.refused import RefusedError
from simulator.wire import KV_PATH, LINK_PATH, KvRequest, LinkRequest, Reason

if TYPE_CHECKING:
    from simulator.server.engine import Engine, Peer

REASON_MAX_CHARS: Final = 300
KNOCK_TIMEOUT_S: Final = 2.0
FETCH_TIMEOUT_S: Final = 10.0

log = get_logger(__name__)


class LinkBook:
    """What is known about the links of one engine. Knocks older than `fresh_s` count as gone."""

    def __init__(self, clock: Clock, fresh_s: float, faults: FaultBoard) -> None:
        self._clock = clock
        self._fresh_s = fresh_s
        self._faults = faults
        self._knocked: dict[int, str] = {}
        self._heard: dict[int, float] = {}

    def note_knock(self, peer: int, outcome: str) -> bool:
        """Remember how knocking at `peer` ended: `ok` or a reason. True when that is news."""
        is_news = self._knocked.get(peer) != outcome
        self._knocked[peer] = outcome
        return is_news

    def note_heard(self, peer: int) -> None:
        """Remember that `peer` knocked just now."""
        self._heard[peer] = self._clock.monotonic()

    def keep(self, peers: Container[int]) -> None:
        """Forget everybody who is no peer any more."""
        self._knocked = {peer: outcome for peer, outcome in self._knocked.items() if peer in peers}
        self._heard = {peer: at for peer, at in self._heard.items() if peer in peers}

    def clear(self) -> None:
        """Forget all links."""
        self._knocked.clear()
        self._heard.clear()

    def stands(self, peer: int) -> bool:
        """True while the link with `peer` works, as far as this end can tell."""
        return self.describe(peer) == LINK_OK

    def describe(self, peer: int) -> str:
        """`ok`, or why there is no link."""
        if self._faults.cuts(peer):
            return "link cut by an injected fault"
        heard = self._heard.get(peer)
        if heard is not None and self._clock.monotonic() - heard <= self._fresh_s:
            return LINK_OK
        return self._knocked.get(peer) or ("peer has gone silent" if heard is not None else "peer was not seen yet")


class LinkKeeper:
    """The decode side: knocks at all peers and fetches KV bytes from them. `kv_port` is the same on all Servers."""

    def __init__(self, engine: Engine, client: HttpClient, kv_port: int) -> None:
        self._engine = engine
        self._client = client
        self._kv_port = kv_port
        self._wake = asyncio.Event()
        self._knocking: set[int] = set()

    def wake(self) -> None:
        """Knock now instead of at the end of the period."""
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Knock once a period, and at once after `wake`, until `stop`. A silent peer delays nobody else's knocks."""
        async with asyncio.TaskGroup() as knocks:
            while not stop.is_set():
                self._wake.clear()
                for peer in self._due():
                    knocks.create_task(self._knock(peer))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._engine.spec.link_period_s):
                        await self._wake.wait()

    def _due(self) -> list[Peer]:
        """Peers to knock at: only decode and flex engines knock, and at nobody twice at the same time."""
        if self._engine.role not in (Role.DECODE, Role.FLEX):
            return []
        return [peer for peer in self._engine.peers.values() if peer.id not in self._knocking]

    async def fetch(self, prefill_id: int, reference: str) -> bytes:
        """Fetch the KV bytes of a reference from a prefill peer, over the link with it.

        Raises:
            RefusedError: the peer is none of ours, the link does not stand, or the peer does not know the reference.
        """
        peer = self._engine.peers.get(prefill_id)
        if peer is None or not self._engine.links.stands(prefill_id):
            reason = self._engine.links.describe(prefill_id) if peer else "it is no peer of this Server"
            raise RefusedError(Reason.NO_LINK, f"KV link to prefill Server {prefill_id}: {reason}. Use another pair.")
        body = KvRequest(decode_id=self._engine.name.id, reference=reference)
        try:
            reply = await self._client.request(
                "POST", self._url(peer, KV_PATH), json=body.model_dump(), expect_sans=SERVER_SANS, timeout_s=FETCH_TIMEOUT_S
            )
        except TransportError as err:
            raise RefusedError(Reason.NO_LINK, f"KV link to prefill Server {prefill_id}: {err}") from err
        if reply.status == 404:
            told = reply.body.decode(errors="replace")[:REASON_MAX_CHARS]
            raise RefusedError(Reason.UNKNOWN_REFERENCE, f"Prefill Server {prefill_id} refuses the KV reference: {told}")
        if reply.status != 200:
            raise RefusedError(Reason.NO_LINK, f"KV link to prefill Server {prefill_id}: answered {reply.status}. Use another pair.")
        return reply.body

    async def _knock(self, peer: Peer) -> None:
        self._knocking.add(peer.id)
        try:
            outcome = await self._outcome(peer)
        finally:
            self._knocking.discard(peer.id)
        if peer.id in self._engine.peers and self._engine.links.note_knock(peer.id, outcome):
            log.info("kv link changed", peer=peer.id, peer_ip=peer.ip, link=outcome)

    async def _outcome(self, peer: Peer) -> str:
        if self._engine.faults.cuts(peer.id):
            return "link cut by an injected fault"
        body = LinkRequest(decode_id=self._engine.name.id, prefill_id=peer.id)
        try:
            reply = await self._client.request(
                "POST", self._url(peer, LINK_PATH), json=body.model_dump(), expect_sans=SERVER_SANS, timeout_s=KNOCK_TIMEOUT_S
            )
        except TransportError as err:
            return str(err)[:REASON_MAX_CHARS]
        return LINK_OK if reply.status == 200 else f"refused with {reply.status}: {reply.body.decode(errors='replace')[:REASON_MAX_CHARS]}"

    def _url(self, peer: Peer, path: str) -> str:
        host = f"[{peer.ip}]" if ":" in peer.ip else peer.ip
        return f"https://{host}:{self._kv_port}{path}"
