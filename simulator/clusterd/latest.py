# SPDX-License-Identifier: Apache-2.0
"""A value with subscribers who want to know the newest one, and may skip those they were too slow for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Holds the newest value. For one event loop."""

    def __init__(self) -> None:
        self._value: T | None = None
        self._epoch = 0
        self._changed = asyncio.Event()

    @property
    def value(self) -> T | None:
        """The newest value; None before the first."""
        return self._value

    def publish(self, value: T) -> None:
        """Replace the value and wake all subscribers."""
        self._value = value
        self._wake()

    def end_subscriptions(self) -> None:
        """End every running `changes`, so that subscribers come again and are checked again."""
        self._epoch += 1
        self._wake()

    async def changes(self) -> AsyncIterator[T]:
        """Yield the present value, then each newer one, until `end_subscriptions`."""
        epoch = self._epoch
        sent: T | None = None
        while epoch == self._epoch:
            changed = self._changed
            if self._value is not None and self._value is not sent:
                sent = self._value
                yield sent
            else:
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
