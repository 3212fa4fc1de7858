# SPDX-License-Identifier: Apache-2.0
"""Faults a rehearsal can put on a Server through its admin port.

GET    /admin/faults                                   what is active
PUT    /admin/faults   {"faults": [{"kind": "slow"}]}  replace all
DELETE /admin/faults                                   heal
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from controller_runtime.api.base import Model
from controller_runtime.api.server_api import NodeId

FAULTS_PATH: Final = "/admin/faults"


class FaultKind(StrEnum):
    """What goes wrong."""

    SLOW = "slow"
    """Prefill and every decode step take `factor` times as long."""
    ERROR = "error"
    """Inference calls are answered with HTTP 500."""
    HANG = "hang"
    """Inference calls are accepted and not answered until the fault is healed."""
    DROP_LINK = "drop-link"
    """KV links are cut: to and from `peer`, or all of them."""
    UNHEALTHY = "unhealthy"
    """Health and status calls are answered with HTTP 500; inference goes on."""
    REFUSE_ROLE = "refuse-role"
    """Role posts are answered with HTTP 500."""


class Fault(Model):
    """One active fault."""

    kind: FaultKind
    factor: Annotated[float, Field(ge=1, le=1000)] = 10.0
    peer: NodeId | None = None


class FaultList(Model):
    """Body of the admin calls."""

    faults: tuple[Fault, ...] = ()


class FaultBoard:
    """The faults that are active now."""

    def __init__(self) -> None:
        self._faults: tuple[Fault, ...] = ()
        self._changed = asyncio.Event()

    @property
    def active(self) -> FaultList:
        """All active faults."""
        return FaultList(faults=self._faults)

    def replace(self, faults: Iterable[Fault]) -> None:
        """Activate exactly these faults and wake everything that hangs."""
        self._faults = tuple(faults)
        self._changed.set()
        self._changed = asyncio.Event()

    def has(self, kind: FaultKind) -> bool:
        """True while a fault of this kind is active."""
        return any(fault.kind is kind for fault in self._faults)

    @property
    def slowdown(self) -> float:
        """Factor on every engine time."""
        return max((fault.factor for fault in self._faults if fault.kind is FaultKind.SLOW), default=1.0)

    def cuts(self, peer: int) -> bool:
        """True when the link with this peer is cut."""
        return any(fault.kind is FaultKind.DROP_LINK and fault.peer in (None, peer) for fault in self._faults)

    async def wait_while(self, kind: FaultKind) -> None:
        """Return when no fault of this kind is active."""
        while self.has(kind):
            await self._changed.wait()
