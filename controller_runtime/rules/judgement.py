# SPDX-License-Identifier: Apache-2.0
"""From findings to violations: names, remedies and recorded exemptions.

An exemption names a rule, an object, a reason and a last day. It hides nothing for ever: past that day the finding
is a violation again and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Final

from controller_runtime.errors import ConfigError
from controller_runtime.rules.model import CrossRule, Finding, Rule
from controller_runtime.rules.objects import KubeObject, ObjectRef, is_sequence, members, reference

EXEMPTION_FIELDS: Final = ("kind", "namespace", "name", "reason", "expires")


@dataclass(frozen=True, slots=True)
class Exemption:
    """One recorded exception. `kind`, `namespace`, `name` are shell patterns; `expires` is the last day it holds."""

    rule: str
    kind: str
    namespace: str
    name: str
    reason: str
    expires: date

    def covers(self, rule_id: str, ref: ObjectRef) -> bool:
        """True when it is about this rule and object, expired or not."""
        return rule_id == self.rule and all(map(fnmatchcase, ref, (self.kind, self.namespace, self.name)))


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding that counts. `note` says that an exemption for it has expired."""

    rule: Rule | CrossRule
    ref: ObjectRef
    finding: Finding
    note: str = ""

    def __str__(self) -> str:
        place = f"{self.ref}: {self.finding.place}" if self.finding.place else str(self.ref)
        return f"{place} {self.finding.text}. {self.rule.remedy}.{self.note}"


def judge(rule: Rule, obj: KubeObject, exemptions: Iterable[Exemption] = (), *, today: date) -> Iterator[Violation]:
    """Violations of one rule in one object, or in each member of a list.

    Raises NotKnownError after everything certain when part of the verdict must wait.
    """
    for member in members(obj):
        ref = reference(member)
        note = _note([exemption for exemption in exemptions if exemption.covers(rule.id, ref)], today)
        if note is not None:
            for finding in rule.check(member):
                yield Violation(rule, ref, finding, note)


def judge_all(
    rule: CrossRule, objects: Sequence[KubeObject], exemptions: Iterable[Exemption] = (), *, today: date
) -> Iterator[tuple[int, Violation]]:
    """Violations of one rule among all objects, each with the index of its object."""
    recorded = tuple(exemptions)
    for index, place, text in rule.check_all(objects):
        ref = reference(objects[index])
        note = _note([exemption for exemption in recorded if exemption.covers(rule.id, ref)], today)
        if note is not None:
            yield index, Violation(rule, ref, Finding(place, text), note)


def parse_exemptions(rule_id: str, raw: object, where: str) -> tuple[Exemption, ...]:
    """Read the exemptions of one rule. `where` names the source in problems. Raises ConfigError with every problem."""
    if raw is None:
        return ()
    if not is_sequence(raw):
        raise ConfigError(f"{where}: is no list. Write a list of exemptions.")
    problems: list[str] = []
    found = []
    for index, entry in enumerate(raw):
        place = f"{where}[{index}]"
        if not isinstance(entry, Mapping):
            problems.append(f"{place}: is no mapping. Give {', '.join(EXEMPTION_FIELDS)}.")
            continue
        missing = [key for key in EXEMPTION_FIELDS if not isinstance(entry.get(key), str) or not entry[key].strip()]
        unknown = [str(key) for key in entry if key not in EXEMPTION_FIELDS]
        problems += [f"{place}.{key}: is missing or empty. Add it." for key in missing]
        problems += [f"{place}.{key}: is no known field. Remove it or correct its spelling." for key in unknown]
        if missing or unknown:
            continue
        try:
            last_day = date.fromisoformat(entry["expires"])
        except ValueError:
            problems.append(f"{place}.expires: is {entry['expires']}, no date. Write it as YYYY-MM-DD.")
            continue
        found.append(Exemption(rule_id, entry["kind"], entry["namespace"], entry["name"], entry["reason"], last_day))
    if problems:
        raise ConfigError(problems)
    return tuple(found)


def _note(covering: Sequence[Exemption], today: date) -> str | None:
    """None when a valid exemption covers the object; else what to add to a violation."""
    if any(today <= exemption.expires for exemption in covering):
        return None
    return "".join(f" An exemption ({exemption.reason}) expired on {exemption.expires}." for exemption in covering)
