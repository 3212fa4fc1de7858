# SPDX-License-Identifier: Apache-2.0
"""Security rules as pure functions on Kubernetes objects.

`ALL` are the rules on single objects, `CROSS` those between objects. The policy pack, the audit of rendered
manifests and any other judge use the same functions. Standard library only, so that a judge starts at once.
"""

from controller_runtime.rules.certainty import NotKnown, NotKnownError
from controller_runtime.rules.custom_resources import judgeable_templates
from controller_runtime.rules.images import pinned_images
from controller_runtime.rules.judgement import Exemption, Violation, judge, judge_all, parse_exemptions
from controller_runtime.rules.listeners import no_all_zero_listener
from controller_runtime.rules.model import CrossFinding, CrossRule, Finding, Rule, Severity
from controller_runtime.rules.objects import KubeObject, ObjectRef, reference
from controller_runtime.rules.plain_secrets import no_plain_secret
from controller_runtime.rules.pod_security import (
    all_capabilities_dropped,
    no_host_namespaces,
    no_privilege_escalation,
    no_privileged_container,
    non_root,
    seccomp_profile,
)
from controller_runtime.rules.tls_files import tls_files
from controller_runtime.rules.tls_mounts import tls_files_in_secrets
from controller_runtime.rules.tls_switches import tls_everywhere

ALL: tuple[Rule, ...] = (
    non_root,
    no_privileged_container,
    no_privilege_escalation,
    all_capabilities_dropped,
    seccomp_profile,
    no_all_zero_listener,
    tls_everywhere,
    tls_files,
    pinned_images,
    no_plain_secret,
    no_host_namespaces,
    judgeable_templates,
)

CROSS: tuple[CrossRule, ...] = (tls_files_in_secrets,)

__all__ = [
    "ALL",
    "CROSS",
    "Rule",
    "CrossRule",
    "Finding",
    "CrossFinding",
    "Severity",
    "judge",
    "judge_all",
    "Violation",
    "Exemption",
    "parse_exemptions",
    "KubeObject",
    "ObjectRef",
    "reference",
    "NotKnown",
    "NotKnownError",
]
