# SPDX-License-Identifier: Apache-2.0
"""Command lines as Go programs take them, so that existing manifests of the operator keep working.

Go accepts one dash or two before a long name, and `--flag=true` or `--flag=false` for switches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

TRUE, FALSE = frozenset({"true", "1", "t"}), frozenset({"false", "0", "f"})


def normalise(arguments: Sequence[str], switches: Collection[str]) -> list[str]:
    """Rewrite Go spelling into `--name=value`, `--switch` and `--no-switch`. `switches`: names that take no value."""
    return [_one(argument, switches) for argument in arguments]


def _one(argument: str, switches: Collection[str]) -> str:
    if len(argument) < 3 or not argument.startswith("-") or not argument.lstrip("-")[:1].isalpha():
        return argument
    name, equals, value = argument.lstrip("-").partition("=")
    if equals and name in switches and value.lower() in TRUE | FALSE:
        return f"--{name}" if value.lower() in TRUE else f"--no-{name}"
    return f"--{name}{equals}{value}"
