# SPDX-License-Identifier: Apache-2.0
"""Sizes, hours and the name types that every stack model shares."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from controller_runtime.api import quantities

GIB = 1024**3

NAME_MAX = 52
"""Longest name of a workload: Kubernetes appends hashes and ordinals and allows 63 in all."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=NAME_MAX)]
"""A DNS-1035 label short enough for what Kubernetes derives from it."""

Namespace = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
DnsName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253)]


def quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity such as `250m` or `4Gi` as cores or bytes.

    Raises:
        ValueError: not a quantity, or below zero.
    """
    found = quantities.quantity(text)
    if found is None or found < 0:
        raise ValueError(f"{text!r} is no Kubernetes quantity. Write for example 250m, 2, 512Mi or 4Gi")
    return found


def _is_quantity(text: str) -> str:
    quantity(text)
    return text


Quantity = Annotated[str, AfterValidator(_is_quantity)]
