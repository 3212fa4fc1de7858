# SPDX-License-Identifier: Apache-2.0
"""Make Pulumi policies of rules: one policy per rule, so levels are set per rule and one unknown value hides one verdict.

Every policy is mandatory unless the pack's configuration says otherwise. Its one setting is a list of exemptions.
A value the preview does not know yet is reported the engine's way, after everything that is certain; the update
runs the same policies with all values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import Severity as PulumiSeverity
from pulumi_policy.proxy import UnknownValueError

from controller_runtime.rules import (
    ALL,
    CROSS,
    CrossRule,
    Exemption,
    KubeObject,
    NotKnown,
    NotKnownError,
    Rule,
    judge,
    judge_all,
    parse_exemptions,
)
from controller_runtime.rules.judgement import EXEMPTION_FIELDS
from controller_runtime.rules.objects import is_sequence

KUBERNETES: Final = "kubernetes:"
_SENTENCE: Final = {"type": "string", "minLength": 1}
SCHEMA: Final = PolicyConfigSchema(
    properties={
        "exemptions": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": list(EXEMPTION_FIELDS),
                "properties": {
                    **dict.fromkeys(EXEMPTION_FIELDS, _SENTENCE),
                    "expires": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
                },
            },
        }
    }
)
"""`kind`, `namespace`, `name`: shell patterns. `expires`: the last day the exemption holds."""


def policies(today: Callable[[], date] = lambda: datetime.now(UTC).date()) -> list[Policy]:
    """Every rule as a policy, in the rules' order."""
    return [*(as_policy(rule, today) for rule in ALL), *(as_stack_policy(rule, today) for rule in CROSS)]


def as_policy(rule: Rule, today: Callable[[], date]) -> ResourceValidationPolicy:
    """Judge each Kubernetes resource before it is created or changed."""

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type.startswith(KUBERNETES):
            with _engine_unknowns():
                for violation in judge(
                    rule, as_object(args.resource_type, args.props), _exemptions(rule, args.get_config()), today=today()
                ):
                    report(str(violation), None)

    return ResourceValidationPolicy(**_words(rule), validate=validate)


def as_stack_policy(rule: CrossRule, today: Callable[[], date]) -> StackValidationPolicy:
    """Judge all Kubernetes resources together, at the end of a preview and of an update."""

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [resource for resource in args.resources if resource.resource_type.startswith(KUBERNETES)]
        objects = [as_object(resource.resource_type, resource.props) for resource in resources]
        with _engine_unknowns():
            for position, violation in judge_all(rule, objects, _exemptions(rule, args.get_config()), today=today()):
                report(str(violation), resources[position].urn)

    return StackValidationPolicy(**_words(rule), validate=validate)


def as_object(resource_type: str, props: Mapping[str, Any]) -> KubeObject:
    """The Kubernetes object that a resource's properties describe. Unknown values become `NotKnown`; whole floats integers."""
    group, _, kind = resource_type.removeprefix(KUBERNETES).rpartition(":")
    plain = _plain(props, "")
    assert isinstance(plain, dict)
    return {"apiVersion": group.removeprefix("core/"), "kind": kind, **plain}


def _plain(value: object, place: str) -> object:
    if isinstance(value, Mapping):
        return {key: _item(value, key, f"{place}.{key}" if place else str(key)) for key in value}
    if is_sequence(value):
        return [_item(value, index, f"{place}[{index}]") for index in range(len(value))]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _item(container: Any, key: object, place: str) -> object:
    try:
        value = container[key]
    except UnknownValueError as err:
        return NotKnown(place, err)
    return _plain(value, place)


@contextmanager
def _engine_unknowns() -> Iterator[None]:
    try:
        yield
    except NotKnownError as err:
        raise (err.value.cause or err) from err


def _exemptions(rule: Rule | CrossRule, config: Mapping[str, Any] | None) -> tuple[Exemption, ...]:
    return parse_exemptions(rule.id, (config or {}).get("exemptions"), f"policy configuration {rule.slug}.exemptions")


def _words(rule: Rule | CrossRule) -> dict[str, Any]:
    """What the engine shows for every policy."""
    return {
        "name": rule.slug,
        "description": f"{rule.id} {rule.title}. {rule.reason} ({'; '.join(rule.control)})",
        "display_name": f"{rule.id} {rule.title}",
        "enforcement_level": EnforcementLevel.MANDATORY,
        "config_schema": SCHEMA,
        "severity": PulumiSeverity(rule.severity.value),
        "remediation_steps": f"{rule.remedy}.",
    }
