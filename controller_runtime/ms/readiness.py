# SPDX-License-Identifier: Apache-2.0
"""How far a controller is, for `/v1/readiness`; the manual's two probes say only that the process runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import Gauge

from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY

log = get_logger(__name__)

_state = Gauge("ms_controller_state", "1 for the current state.", ["state"], registry=REGISTRY)


class ControllerState(StrEnum):
    """What a controller is doing."""

    INITIALISING = "initialising"
    LEADER = "leader"
    STANDBY = "standby"
    DEGRADED = "degraded"

    @property
    def is_ready(self) -> bool:
        """True for a leader whose cluster serves, and for a standby."""
        return self in (ControllerState.LEADER, ControllerState.STANDBY)


@dataclass
class Readiness:
    """The current state and, when it is not ready, why."""

    state: ControllerState = ControllerState.INITIALISING
    reason: str = "starting"

    def set(self, state: ControllerState, reason: str = "") -> None:
        """Change the state; logs one line when it differs."""
        if (state, reason) == (self.state, self.reason):
            return
        if state is not self.state:
            log.info("controller state changed", state=state, reason=reason)
        self.state, self.reason = state, reason
        for other in ControllerState:
            _state.labels(other).set(1 if other is state else 0)
