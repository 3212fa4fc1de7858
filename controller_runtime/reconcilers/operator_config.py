# SPDX-License-Identifier: Apache-2.0
"""The operator's own ConfigMap, `infer-operator-config`: switches that take effect while it runs.

`fault_handling`: `true` or `false` turns rescheduling and the node cleaner on or off. Absent, or no ConfigMap: on. Another
value changes nothing and is told by an Event on the ConfigMap. Every replica follows the map; the leader tells.
As the reference operator ships it; there nothing reads it.
"""

from __future__ import annotations

from collections.abc import Callable

from controller_runtime.api.meta import JsonObject
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.controller import Result
from controller_runtime.kube.events import EventRecorder
from controller_runtime.kube.kind import Object
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request

FAULT_HANDLING = "fault_handling"
INVALID_SETTING = "InvalidSetting"
VALUES = {"true": True, "false": False}

log = get_logger(__name__)


def setting_of(config: JsonObject | None) -> str:
    """The value of `fault_handling` as it stands in the ConfigMap, `true` when it does not."""
    return str(((config or {}).get("data") or {}).get(FAULT_HANDLING, "true"))


class OperatorConfig:
    """The switches as they are now."""

    def __init__(self) -> None:
        self._is_on = True
        self._subscribers: list[Callable[[], None]] = []

    def handles_faults(self) -> bool:
        """Whether faults are handled."""
        return self._is_on

    def on_switch_on(self, callback: Callable[[], None]) -> None:
        """Call `callback` when fault handling is switched on, to look at what happened meanwhile."""
        self._subscribers.append(callback)

    def observe(self, _old: Object | None, new: Object | None) -> None:
        """Handler of the informer of the ConfigMap."""
        was_on, value = self._is_on, setting_of(new)
        self._is_on = VALUES.get(value, was_on)
        if value not in VALUES:
            log.warning("setting without effect", setting=FAULT_HANDLING, value=value, stays=was_on)
        if self._is_on == was_on:
            return
        log.info("fault handling switched", on=self._is_on)
        if self._is_on:
            for callback in self._subscribers:
                callback()


class OperatorConfigReconciler:
    """Tells of a setting that is not understood."""

    def __init__(self, config_maps: Store, events: EventRecorder) -> None:
        self._config_maps, self._events = config_maps, events

    async def reconcile(self, request: Request) -> Result:
        """Write one Event for a value that is neither true nor false."""
        config = self._config_maps.get(*request)
        if config is not None and (value := setting_of(config)) not in VALUES:
            message = f"{FAULT_HANDLING} is {value!r}, allowed true or false. The value before it stays in effect."
            await self._events.event(config, "Warning", INVALID_SETTING, message)
        return Result.done()
