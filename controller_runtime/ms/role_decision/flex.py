# SPDX-License-Identifier: Apache-2.0
"""Splits with one flexible instance that serves both roles, and whether a new split is worth a switch.

The controller's configuration refuses flexible instances (`has_flex`); the arithmetic is kept for comparison.
`share` is the part of the flexible instance that prefills. Rates are requests per second of one instance.
Reference only: the search for the share, and the intent of the switch test, whose reference code never applies.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final, NamedTuple

from controller_runtime.errors import ConfigError
from controller_runtime.ms.role_decision.digs import EPSILON
from controller_runtime.ms.role_decision.ratio import Split

FLEX_INSTANCES: Final = 1
FIRST_STEP: Final = 0.1
STEP_DECAY: Final = 0.99
MAX_STEPS: Final = 1000
BALANCED: Final = 1e-8


class Rates(NamedTuple):
    """Abilities of one instance, and of one transfer path, which caps both."""

    prefill: float
    decode: float
    transfer: float


class FlexSplit(NamedTuple):
    """Counts of fixed instances, the share of the flexible one that prefills, and what the whole serves."""

    prefill: int
    decode: int
    share: float
    throughput: float


def flex_split(rates: Rates, instances: int) -> FlexSplit:
    """Split `instances`, one of them flexible, around the balance point: the better of its two neighbours.

    Raises ConfigError when a rate is zero for all practical purposes or negative.
    """
    for name, rate in zip(Rates._fields, rates, strict=True):
        if rate < EPSILON:
            raise ConfigError(f"role decision: the {name} rate is {rate}, nothing to divide. Give rates above zero.")
    prefill, decode = min(rates.prefill, rates.transfer), min(rates.decode, rates.transfer)
    balance = instances * decode / (prefill + decode)
    low, high = (_candidate(rates, count, instances) for count in (floor(balance), ceil(balance)))
    return low if low.throughput > high.throughput else high


def is_switch_worthwhile(rates: Rates, old: Split, new: Split) -> bool:
    """True when the role that loses instances still outruns the other at its old count.

    While the losing side would be the bottleneck, turning instances round costs a drain and gains nothing.
    """
    if new.prefill < old.prefill:
        return new.prefill * rates.prefill > old.decode * rates.decode + EPSILON
    if new.decode < old.decode:
        return new.decode * rates.decode > old.prefill * rates.prefill + EPSILON
    return False


def _candidate(rates: Rates, prefill: int, instances: int) -> FlexSplit:
    decode = instances - prefill - FLEX_INSTANCES
    if decode < 0:
        return FlexSplit(prefill, 0, 0.0, 0.0)
    share = _balancing_share(rates, prefill, decode)
    throughput = min(_sides(rates, prefill, decode, share))
    if prefill == 0:
        share = max(share, 0.5)
    if decode == 0:
        share = min(share, 0.5)
    return FlexSplit(prefill, decode, share, throughput)


def _balancing_share(rates: Rates, prefill: int, decode: int) -> float:
    share, step = 0.0, FIRST_STEP
    for _ in range(MAX_STEPS):
        prefills, decodes = _sides(rates, prefill, decode, share)
        if abs(prefills - decodes) < BALANCED:
            break
        share = min(1.0, max(0.0, share - step if prefills > decodes else share + step))
        step *= STEP_DECAY
    return share


def _sides(rates: Rates, prefill: int, decode: int, share: float) -> tuple[float, float]:
    prefills = prefill * min(rates.prefill, rates.transfer) + min(share * rates.prefill, rates.transfer)
    decodes = decode * min(rates.decode, rates.transfer) + min((1 - share) * rates.decode, rates.transfer)
    return prefills, decodes
