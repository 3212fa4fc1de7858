# SPDX-License-Identifier: Apache-2.0
"""A preview as a reviewer reads it: which objects change and which of their properties, never a value.

Reads the engine's events, one JSON object a line (`PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --json`):
the digest that `--json` prints otherwise names no policy violation. Values of properties are left out because a value
can be a secret; property paths cannot.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller_runtime.api.base import Model
from controller_runtime.errors import ConfigError

QUIET = frozenset({"same", "read", "read-discard", "refresh"})
HALVES = frozenset({"create-replacement", "delete-replaced", "discard-replaced"})
"""Steps of a replacement, which has a step `replace` of its own."""
SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "+-"}
SHOWN = ("warning", "error")


class Change(Model):
    """One object that changes. `properties`: paths, sorted; empty for an object that comes or goes."""

    operation: str
    kind: str
    name: str
    properties: tuple[str, ...]


class Violation(Model):
    """One finding of a policy. `level`: `mandatory` stops an update, `advisory` does not."""

    policy: str
    level: str
    kind: str
    name: str
    text: str


class PreviewSummary(Model):
    """A preview. `packs`: policy packs that judged it. `diagnostics`: warnings and errors of program, engine and providers."""

    stack: str
    passed: bool
    changes: tuple[Change, ...]
    unchanged: int
    packs: tuple[str, ...]
    violations: tuple[Violation, ...]
    diagnostics: tuple[str, ...]


def read_preview(lines: Iterable[str], stack: str) -> PreviewSummary:
    """Read the events of one preview. Without a final event it did not come to its end, so it did not pass.

    Raises:
        ConfigError: a line is no event.
    """
    changes: list[Change] = []
    violations: list[Violation] = []
    diagnostics: list[str] = []
    packs: tuple[str, ...] = ()
    passed: bool | None = None
    unchanged = 0
    for kind, body in _events(lines, stack):
        if kind == "resourcePreEvent":
            step = body["metadata"]
            if step["op"] in QUIET:
                unchanged += 1
            elif step["op"] not in HALVES:
                changes.append(_change(step))
        elif kind == "policyEvent":
            violations.append(_violation(body))
        elif kind == "diagnosticEvent" and body.get("severity") in SHOWN:
            diagnostics.append(body["message"].strip())
        elif kind == "summaryEvent":
            passed = body.get("result") == "succeeded"
            packs = tuple(f"{name.partition('|')[0]} {version}" for name, version in (body.get("PolicyPacks") or {}).items())
    if passed is None:
        diagnostics.append("The preview ended early. Its standard error says why.")
    return PreviewSummary(
        stack=stack,
        passed=bool(passed),
        changes=tuple(changes),
        unchanged=unchanged,
        packs=packs,
        violations=tuple(violations),
        diagnostics=tuple(diagnostics),
    )


def summarise(preview: PreviewSummary) -> str:
    """Write Markdown."""
    counts = Counter(change.operation for change in preview.changes)
    found = ", ".join(f"{count} to {operation}" for operation, count in sorted(counts.items())) or "no changes"
    lines = [f"### Preview of `{preview.stack}`: {found if preview.passed else 'failed'}", ""]
    lines += _table(("", "object", "name", "properties"), [_change_row(change) for change in preview.changes])
    lines += _table(("policy", "level", "object", "name", "finding"), [_violation_row(violation) for violation in preview.violations])
    judged = f" Judged by {', '.join(preview.packs)}: {len(preview.violations)} violations." if preview.packs else " No policy pack ran."
    lines.append(f"{preview.unchanged} unchanged.{judged}")
    lines += [f"\n> {_one_line(text)}" for text in preview.diagnostics]
    return "\n".join(lines) + "\n"


def _events(lines: Iterable[str], stack: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            kind, body = next((key, value) for key, value in event.items() if key not in ("sequence", "timestamp"))
        except (json.JSONDecodeError, AttributeError, StopIteration):
            raise ConfigError(
                f"preview of {stack}, line {number}: no engine event. "
                "Set PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true and pass what `pulumi preview --json` prints."
            ) from None
        yield kind, body


def _change(step: Mapping[str, Any]) -> Change:
    kind, name = _object(step["urn"])
    old, new = ((step.get(side) or {}).get("inputs") for side in ("old", "new"))
    details = step.get("detailedDiff") or step.get("diffs")
    paths = details or (_differing(old, new) if old is not None and new is not None else ())
    return Change(operation=step["op"], kind=kind, name=name, properties=tuple(sorted(paths)))


def _differing(old: object, new: object, path: str = "") -> Iterator[str]:
    """Paths that differ, for a component, of which the engine gives no details."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _differing(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path


def _violation(body: Mapping[str, Any]) -> Violation:
    kind, name = _object(body["resourceUrn"]) if body.get("resourceUrn") else ("", "")
    # The first line repeats the rule, which the policy's name leads to.
    text = body["message"].strip().partition("\n")
    return Violation(policy=body["policyName"], level=body["enforcementLevel"], kind=kind, name=name, text=text[2] or text[0])


def _object(urn: str) -> tuple[str, str]:
    *_, kind, name = urn.split("::")
    return kind.rpartition("$")[2], name


def _table(header: tuple[str, ...], rows: list[str]) -> list[str]:
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *rows, ""] if rows else []


def _change_row(change: Change) -> str:
    properties = ", ".join(f"`{path}`" for path in change.properties)
    return f"| {SIGNS.get(change.operation, change.operation)} | `{change.kind}` | `{change.name}` | {properties} |"


def _violation_row(violation: Violation) -> str:
    return f"| {violation.policy} | {violation.level} | `{violation.kind}` | `{violation.name}` | {_one_line(violation.text)} |"


def _one_line(text: str) -> str:
    """Keep a message inside its cell or quote."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
