# SPDX-License-Identifier: Apache-2.0
"""A rule: a function that finds what is wrong in one object, with the words users read beside it.

`check` sees one Kubernetes object. `check_all` of a `CrossRule` sees all objects of a stack, for what shows only
between them. Findings say place and what is wrong there; the rule says why it matters and what to do.
No finding contains a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

from controller_runtime.rules.certainty import certain_first
from controller_runtime.rules.objects import KubeObject

Subject = TypeVar("Subject")


class Severity(StrEnum):
    """What a violation puts at stake."""

    CRITICAL = "critical"
    """The node, or a key."""
    HIGH = "high"
    """One workload, or what it sends."""
    MEDIUM = "medium"
    """A layer of defence."""


class Finding(NamedTuple):
    """`place`: path inside the object. `text`: what is wrong there, without a full stop."""

    place: str
    text: str


class CrossFinding(NamedTuple):
    """A finding of a `CrossRule`: `position` is the object's index in what `check_all` was given."""

    position: int
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule about single objects.

    `control`: the published controls it implements. PSS-B, PSS-R: Pod Security Standards, baseline and restricted.
    CIS: CIS Kubernetes Benchmark. NSA: Kubernetes Hardening Guide.
    """

    id: str
    slug: str
    title: str
    reason: str
    control: tuple[str, ...]
    remedy: str
    severity: Severity
    findings: Callable[[KubeObject], Iterator[Finding]]

    def check(self, obj: KubeObject) -> Iterator[Finding]:
        """Yield what is wrong in one object. Raises NotKnownError after everything certain when a verdict must wait."""
        return self.findings(obj)


@dataclass(frozen=True, slots=True)
class CrossRule:
    """One rule about the objects of a stack together."""

    id: str
    slug: str
    title: str
    reason: str
    control: tuple[str, ...]
    remedy: str
    severity: Severity
    check_all: Callable[[Sequence[KubeObject]], Iterator[CrossFinding]]


def itself(obj: KubeObject) -> tuple[KubeObject]:
    """The object as the only subject of a rule."""
    return (obj,)


def rule(
    rule_id: str,
    *,
    title: str,
    reason: str,
    control: tuple[str, ...],
    remedy: str,
    severity: Severity,
    each: Callable[[KubeObject], Iterable[Subject]],
) -> Callable[[Callable[[Subject], Iterator[Finding]]], Rule]:
    """Make a rule of a function on one subject.

    `each` lists the subjects of an object. They are judged one by one, so an unknown value in one hides no other.
    """

    def wrap(function: Callable[[Subject], Iterator[Finding]]) -> Rule:
        def findings(obj: KubeObject) -> Iterator[Finding]:
            return _once(certain_first(function(subject) for subject in each(obj)))

        return Rule(rule_id, _slug(rule_id, function), title, reason, control, remedy, severity, findings)

    return wrap


def cross_rule(
    rule_id: str, *, title: str, reason: str, control: tuple[str, ...], remedy: str, severity: Severity
) -> Callable[[Callable[[Sequence[KubeObject]], Iterator[CrossFinding]]], CrossRule]:
    """Make a rule of a function on all objects."""

    def wrap(function: Callable[[Sequence[KubeObject]], Iterator[CrossFinding]]) -> CrossRule:
        return CrossRule(rule_id, _slug(rule_id, function), title, reason, control, remedy, severity, function)

    return wrap


def _once(findings: Iterator[Finding]) -> Iterator[Finding]:
    seen: set[Finding] = set()
    for finding in findings:
        if finding not in seen:
            seen.add(finding)
            yield finding


def _slug(rule_id: str, function: Callable[..., object]) -> str:
    return f"{rule_id}-{function.__name__.replace('_', '-')}"
