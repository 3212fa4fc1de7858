# SPDX-License-Identifier: Apache-2.0
"""The status page: what is there, what is wrong, how to send a request. Pure text from models."""

from __future__ import annotations

import datetime as dt
import textwrap
from collections.abc import Sequence
from urllib.parse import urlsplit

from controller_runtime.api.base import WireModel
from controller_runtime.cli.cluster_view import ClusterView

EXPIRY_WARNING = dt.timedelta(days=14)


class StackOutputs(WireModel):
    """Outputs of the Pulumi stack."""

    endpoint: str
    namespaces: dict[str, str]
    instances: dict[str, int]
    decision: str
    certificates: dict[str, str]
    proof: str | None = None
    revocation_lists: dict[str, str]
    """Authority -> nextUpdate."""

    @property
    def server_name(self) -> str:
        """Name that the Coordinator's certificate carries."""
        return urlsplit(self.endpoint).hostname or ""


def problems(outputs: StackOutputs, view: ClusterView, now: dt.datetime | None = None) -> list[str]:
    """List what needs a person, most urgent first."""
    at = now or dt.datetime.now(dt.UTC)
    found = [f"node {node.name} is not Ready" for node in view.nodes if not node.ready]
    found += [
        f"pod {pod.namespace}/{pod.name} is not Ready"
        for pod in view.pods
        if not pod.ready and not pod.finished and not view.stands_by(pod)
    ]
    found += [
        f"{each.kind} {each.namespace}/{each.name}: {each.updated} of {each.replicas} pods have the present template"
        for each in view.workloads
        if each.updated < each.replicas
    ]
    for role, count in outputs.instances.items():
        ready = sum(pod.ready for pod in view.servers() if pod.role == role)
        if ready < count:
            found.append(f"role {role} has {ready} Ready pods of at least {count}")
    for title, ends in (("certificate", outputs.certificates), ("revocation list", outputs.revocation_lists)):
        found += [
            f"{title} {name} ends {end}. Run `pulumi up`."
            for name, end in ends.items()
            if dt.datetime.fromisoformat(end) - at < EXPIRY_WARNING
        ]
    return found


def render(outputs: StackOutputs, view: ClusterView, found: Sequence[str], request: str) -> str:
    """Write the page. `request`: lines for a shell that send one."""
    members = view.etcd_members()
    sections = [
        _table("NODES", ("name", "address", "ready", "NPUs"), [(n.name, n.address, _yes(n.ready), str(n.npus)) for n in view.nodes]),
        _table(
            "PODS",
            ("namespace", "name", "role", "node", "ready", "restarts"),
            [(p.namespace, p.name, p.role or "", p.node, "done" if p.finished else _yes(p.ready), str(p.restarts)) for p in view.pods],
        ),
        f"ETCD  {sum(pod.ready for pod in members)} of {len(members)} members Ready (by a linearizable read)",
        f"ROLES  {outputs.instances.get('prefill', 0)} prefill, {outputs.instances.get('decode', 0)} decode. {outputs.decision}",
        _table("CERTIFICATES", ("identity", "valid until"), [(name, _minute(end)) for name, end in sorted(outputs.certificates.items())]),
        "REQUEST\n" + textwrap.indent(request, "  "),
        "PROBLEMS\n" + "\n".join(f"  {problem}" for problem in found) if found else "No problems.",
    ]
    return "\n\n".join(sections)


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)]
    return "\n".join([title, *lines])


def _minute(moment: str) -> str:
    return dt.datetime.fromisoformat(moment).strftime("%Y-%m-%d %H:%M UTC")


def _yes(value: bool) -> str:
    return "yes" if value else "NO"
