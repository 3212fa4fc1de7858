# SPDX-License-Identifier: Apache-2.0
"""S10: who can reach a port is decided by the address it listens on.

Seed: controller manual, `allow_all_zero_ip_listening`, and deployment manual, ports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller_runtime.rules.addresses import all_zero_address
from controller_runtime.rules.model import Finding, Severity, rule
from controller_runtime.rules.settings import Setting, settings

ALLOW_ALL_ZERO: Final = "allow_all_zero_ip_listening"
ON: Final = (True, "true", "True", "TRUE", "1", "yes", "on")


@rule(
    "S10",
    title="No listener on all addresses",
    reason="A port on 0.0.0.0 or :: answers on every network its pod ever gets, also those nobody thought of.",
    control=("NSA network separation",),
    remedy="Listen on $(POD_IP) or on a loopback address",
    severity=Severity.HIGH,
    each=settings,
)
def no_all_zero_listener(setting: Setting) -> Iterator[Finding]:
    """Looks into arguments, environment, probes and the files of ConfigMaps; the switch that allows it is refused too."""
    if setting.name.lower() == ALLOW_ALL_ZERO and setting.value in ON:
        yield Finding(setting.place, "allows listening on all addresses")
    elif (address := _all_zero(setting)) is not None:
        yield Finding(setting.place, f"names {address}, which is every address the pod has")


def _all_zero(setting: Setting) -> str | None:
    if isinstance(setting.value, bool) or not isinstance(setting.value, (str, int)):
        return None
    return all_zero_address(str(setting.value), setting.name)
