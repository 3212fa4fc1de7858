# SPDX-License-Identifier: Apache-2.0
"""One problem in a user's input: where, what is there, which rule, how to fix. Always printed in that order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

REMEDY = {
    "missing": "Add it",
    "extra_forbidden": "Remove it or correct its spelling",
    "literal_error": "Use one of the listed values",
    "string_pattern_mismatch": "Write it as the pattern says",
}


class Problem(NamedTuple):
    """`path` is dotted below the root; `value` is what the user wrote, or None when it is absent."""

    path: str
    value: object
    rule: str
    remedy: str

    def sentence(self, root: str) -> str:
        """Render as one line of the report."""
        place = f"{root}.{self.path}" if self.path else root
        shown = "" if self.value is None else f" is {shorten(self.value)}"
        return f"{place}{shown}: {self.rule}. {self.remedy}."


def shorten(value: object) -> str:
    """Show a value on one line, at most 80 characters."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def from_validation(error: ValidationError) -> list[Problem]:
    """Translate pydantic's findings; order is that of the model's fields."""
    return [_problem(dict(found)) for found in error.errors(include_url=False)]


def _problem(found: Mapping[str, Any]) -> Problem:
    kind = str(found["type"])
    path = ".".join(str(part) for part in found["loc"])
    if kind == "value_error":
        rule, _, remedy = str(found["ctx"]["error"]).partition(". ")
        return Problem(path, found["input"] if not isinstance(found["input"], dict) else None, rule, remedy or "Correct it")
    rule = str(found["msg"])
    rule = rule[:1].lower() + rule[1:]
    if kind == "missing":
        return Problem(path, None, "is required", REMEDY[kind])
    if kind == "extra_forbidden":
        return Problem(path, found["input"], "is no known setting", REMEDY[kind])
    if kind == "string_pattern_mismatch":
        rule = f"does not match {found['ctx']['pattern']}"
    return Problem(path, found["input"], rule, REMEDY.get(kind, "Set a value in that range"))
