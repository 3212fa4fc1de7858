# SPDX-License-Identifier: Apache-2.0
"""A preview as a reviewer reads it: which objects change and which of their properties, never a value.

Values are left out because a value can be a secret; property paths cannot.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from controller_runtime.api.base import Model
from controller_runtime.errors import ConfigError

QUIET = frozenset({"same", "read", "read-discard"})
SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "+-", "create-replacement": "++", "delete-replaced": "--"}


class Change(Model):
    """One object that changes. `properties`: dotted paths."""

    operation: str
    kind: str
    name: str
    properties: tuple[str, ...]


class PreviewSummary(Model):
    """A preview. `diagnostics`: warnings and errors, policy violations among them."""

    stack: str
    changes: tuple[Change, ...]
    unchanged: int
    diagnostics: tuple[str, ...]


def read_preview(text: str, stack: str) -> PreviewSummary:
    """Read what `pulumi preview --json` printed.

    Raises:
        ConfigError: it is not that.
    """
    try:
        digest = json.loads(text)
        steps = digest["steps"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"preview of {stack}: no output of `pulumi preview --json` ({error}). Run it again.") from error
    changes = tuple(_change(step) for step in steps if step["op"] not in QUIET)
    diagnostics = tuple(item["message"].strip() for item in digest.get("diagnostics", []) if item.get("severity") in ("warning", "error"))
    return PreviewSummary(stack=stack, changes=changes, unchanged=len(steps) - len(changes), diagnostics=diagnostics)


def summarise(preview: PreviewSummary) -> str:
    """Write Markdown."""
    counts = Counter(change.operation for change in preview.changes)
    headline = ", ".join(f"{count} to {operation}" for operation, count in sorted(counts.items())) or "no changes"
    lines = [f"### Preview of `{preview.stack}`: {headline}", ""]
    if preview.changes:
        lines += ["| | object | name | properties |", "|---|---|---|---|"]
        lines += [_row(change) for change in preview.changes]
        lines.append("")
    lines.append(f"{preview.unchanged} unchanged.")
    lines += [f"\n> {line}" for line in preview.diagnostics]
    return "\n".join(lines) + "\n"


def _row(change: Change) -> str:
    properties = ", ".join(f"`{path}`" for path in change.properties)
    return f"| {SIGNS.get(change.operation, change.operation)} | `{change.kind}` | `{change.name}` | {properties} |"


def _change(step: dict[str, Any]) -> Change:
    *_, kind, name = step["urn"].split("::")
    return Change(
        operation=step["op"],
        kind=kind.rpartition("$")[2],
        name=name,
        properties=tuple(sorted(step.get("detailedDiff") or step.get("diffReasons") or ())),
    )
