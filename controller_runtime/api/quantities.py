# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities: their value, their exact sum, and the spelling the API server gives them.

Sums are exact in any mixture of units; a sum is written in the unit family of its first term, as the Go libraries write it
(64Gi and 64Gi is 128Gi, 500m and 1 is 1500m).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal, localcontext

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?")
"""Two digits of exponent hold every quantity; a hash such as 51e4995521140799 is no number."""
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {"n": "1e-9", "u": "1e-6", "m": "1e-3", "": "1", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "P": "1e15", "E": "1e18"}
SMALLEST = Decimal(DECIMAL["n"])
DIGITS = 400
"""Of intermediate results: more than the largest quantity has above its smallest unit."""


def quantity(text: object) -> Decimal | None:
    """Value of a Kubernetes quantity such as `1500m`, `64Gi`, `2e3` or 4; None when it is none."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    number = str(text)
    for suffix, factor in BINARY.items():
        if number.endswith(suffix):
            return _decimal(number.removesuffix(suffix), Decimal(factor))
    if number and number[-1] in DECIMAL:
        return _decimal(number[:-1], Decimal(DECIMAL[number[-1]]))
    return _decimal(number, Decimal(1))


def total(terms: Iterable[object], times: int = 1) -> str | None:
    """`times` the sum of quantities, as the API server writes it. Terms that are none are left out; None without any."""
    known = [(term, value) for term in terms if (value := quantity(term)) is not None]
    if not known:
        return None
    with localcontext() as context:
        context.prec = DIGITS
        value = times * sum((value for _, value in known), Decimal(0))
        return _binary(value) if str(known[0][0]).endswith(tuple(BINARY)) else _metric(value)


def _binary(value: Decimal) -> str:
    if value != value.to_integral_value():
        return _metric(value)
    whole = int(value)
    suffix = next((suffix for suffix, factor in reversed(BINARY.items()) if whole and whole % factor == 0), "")
    return f"{whole // BINARY.get(suffix, 1)}{suffix}"


def _metric(value: Decimal) -> str:
    """In the largest unit that leaves no fraction; below a billionth rounded up."""
    value = value.quantize(SMALLEST, rounding=ROUND_CEILING)
    if not value:
        return "0"
    scaled = ((suffix, value / Decimal(factor)) for suffix, factor in reversed(DECIMAL.items()))
    return next(f"{int(number)}{suffix}" for suffix, number in scaled if number == number.to_integral_value())


def _decimal(text: str, factor: Decimal) -> Decimal | None:
    if not NUMBER.fullmatch(text):
        return None
    with localcontext() as context:
        context.prec = DIGITS
        return Decimal(text) * factor
