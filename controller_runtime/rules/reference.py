# SPDX-License-Identifier: Apache-2.0
"""The reference page of the rules, rendered from the rules: `python -m controller_runtime.rules.reference`."""

from __future__ import annotations

import sys

from controller_runtime.rules import ALL, CROSS, CrossRule, Rule
from controller_runtime.rules.secret_text import PUBLIC_NAMES
from controller_runtime.rules.tls_switches import PLAIN_HTTP

HEAD = """\
# Security rules

<!-- Generated: `python -m controller_runtime.rules.reference > docs/reference/rules.md`. -->

Every rule is a policy of the pack in `policies/`. `make preview` and `make up` run the pack, and so does a bare
`pulumi preview` after `. ./.env.sh`. All are mandatory: a violation stops the preview and the update. A rule sees
containers of all three lists, in every workload kind, in lists, in partial updates (`...Patch`) and in the pod
templates of custom resources.

A value that a preview does not know yet is reported as "can't run policy ... during preview", after everything
that is certain; the update runs the same policy with the value.

## Levels and exemptions

Both are set per policy in a file for `--policy-pack-config`, or `PULUMI_OPTION_POLICY_PACK_CONFIG`:

```json
{
  "S18-pinned-images": {"enforcementLevel": "advisory"},
  "S24-no-host-namespaces": {
    "exemptions": [
      {
        "kind": "DaemonSet", "namespace": "monitoring", "name": "node-exporter-*",
        "reason": "reads counters of the node's network", "expires": "2026-12-31"
      }
    ]
  }
}
```

`kind`, `namespace` and `name` are shell patterns. All five fields are required. After the last day the finding is
a violation again and says that its exemption has expired.

## Recorded exceptions
"""


def page() -> str:
    """The page as Markdown."""
    exceptions = [f"- S11, port {port} may speak plain http: {reason}." for port, reason in PLAIN_HTTP.items()]
    exceptions += [f"- S21, `{name}` is no secret: {reason}." for name, reason in PUBLIC_NAMES.items()]
    return "\n".join([HEAD, *exceptions, "", "## Rules", "", *map(_section, ALL), *map(_section, CROSS)])


def _section(rule: Rule | CrossRule) -> str:
    scope = "" if isinstance(rule, Rule) else " Judged over all objects of a stack together."
    return f"""\
### {rule.id}: {rule.title}

Policy `{rule.slug}`, severity {rule.severity}.{scope}

{rule.reason}

- Remedy: {rule.remedy}.
- Controls: {"; ".join(rule.control)}.
"""


if __name__ == "__main__":
    sys.stdout.write(page())
