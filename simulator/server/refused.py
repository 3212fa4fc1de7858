# SPDX-License-Identifier: Apache-2.0
"""The one error that becomes a `Refusal` body, and the statuses that go with its reasons."""

from __future__ import annotations

from typing import Final

from controller_runtime.errors import AscendPdError
from simulator.wire import Reason, Refusal

_STATUS: Final = {
    Reason.BAD_REQUEST: 400,
    Reason.WRONG_ROLE: 409,
    Reason.NO_LINK: 502,
    Reason.UNKNOWN_REFERENCE: 404,
    Reason.FULL: 429,
    Reason.PAUSED: 503,
    Reason.STOPPING: 503,
    Reason.ENGINE_FAULT: 500,
}


class RefusedError(AscendPdError):
    """This Server does not do what it was asked to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.refusal = Refusal(reason=reason, message=message)
        super().__init__(message)

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return _STATUS[self.refusal.reason]
