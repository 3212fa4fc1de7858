# SPDX-License-Identifier: Apache-2.0
"""Who becomes prefill and who decode, and in which group. Pure.

What the rank table fixes (hardware type, label) stands; only Servers without a fixed role are counted out against
a target split, prefill first, in rank-table order. Groups hold at most `group_limit` Servers where both roles
suffice; within a group every prefill Server is linked with every decode Server.
Seed: controller manual, `is_heterogeneous`, `default_p_rate`, `default_d_rate`, `group_id` in table 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller_runtime.api.roles import Role
from controller_runtime.errors import TemporaryError
from controller_runtime.ms.role_decision.ratio import Split, group_splits
from controller_runtime.ms.server_spec import ServerSpec


@dataclass(frozen=True, slots=True)
class Place:
    """Role and group of one Server."""

    role: Role
    group_id: int


def assign_roles(specs: Sequence[ServerSpec], target: Split | None) -> tuple[Role, ...]:
    """One role per spec, in order. `target` may be None when the table fixes every role.

    Raises:
        TemporaryError: one side would have no Server, so nothing can be served yet.
    """
    fixed = Counter(spec.role for spec in specs if spec.has_fixed_role)
    missing = max(0, (target.prefill if target else 0) - fixed[Role.PREFILL])
    roles: list[Role] = []
    for spec in specs:
        if spec.has_fixed_role:
            roles.append(spec.role)
            continue
        roles.append(Role.PREFILL if missing > 0 else Role.DECODE)
        missing -= 1
    counts = Counter(roles)
    if not counts[Role.PREFILL] or not counts[Role.DECODE]:
        raise TemporaryError(
            f"role assignment: {counts[Role.PREFILL]} prefill and {counts[Role.DECODE]} decode Servers answer, each side needs one. "
            "Waiting for more Servers."
        )
    return tuple(roles)


def assign_groups(roles: Sequence[Role], group_limit: int) -> tuple[Place, ...]:
    """One place per role, in order: each role is dealt round-robin over as few groups as `group_limit` allows.

    Raises:
        TemporaryError: one side has no Server.
    """
    counts = Counter(roles)
    groups = len(group_splits(Split(counts[Role.PREFILL], counts[Role.DECODE]), group_limit))
    if not groups:
        raise TemporaryError("group assignment: one side has no Server. Waiting for more Servers.")
    dealt = {Role.PREFILL: 0, Role.DECODE: counts[Role.PREFILL]}
    places: list[Place] = []
    for role in roles:
        places.append(Place(role, dealt[role] % groups))
        dealt[role] += 1
    return tuple(places)


def place_newcomer(
    spec: ServerSpec,
    predecessor: Place | None,
    present: Mapping[int, Split],
    target: Split | None,
    reported: Role = Role.UNDEFINED,
) -> Place:
    """Where a Server goes that appears while the cluster runs.

    A fixed role stands. Otherwise it takes over from `predecessor` (who had its address or host), else it
    keeps the role it has `reported` (a backup may have missed it), else it joins
    the side that is short against `target` over all groups. Its group is the predecessor's when the role is the same,
    else the one with fewest Servers of that role. `present`: counts per group.
    """
    total = Split(sum(split.prefill for split in present.values()), sum(split.decode for split in present.values()))
    if spec.has_fixed_role:
        role = spec.role
    elif predecessor is not None:
        role = predecessor.role
    elif reported in (Role.PREFILL, Role.DECODE):
        role = reported
    else:
        role = _short_side(total, target)
    if predecessor is not None and predecessor.role is role:
        return predecessor
    fewest = min(present, key=lambda group_id: (_count(present[group_id], role), group_id), default=0)
    return Place(role, fewest)


def _short_side(total: Split, target: Split | None) -> Role:
    wanted = target or Split(1, 1)
    return Role.PREFILL if total.prefill * wanted.decode <= total.decode * wanted.prefill else Role.DECODE


def _count(split: Split, role: Role) -> int:
    return split.prefill if role is Role.PREFILL else split.decode
