# SPDX-License-Identifier: Apache-2.0
"""What users, hardware and clumsy administrators do, drawn at random from a seed.

Pure: the sequence depends on the seed alone. Where an operation concerns some live object it carries a number to choose it
by, because which objects there are at that moment depends on timing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from controller_runtime.kube.client import Propagation
from controller_runtime.kube.kind import (
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    INFER_SERVICE,
    INSTANCE_SET,
    POD_GROUP,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from tests.support.soak.wishes import DEFECTS, Role, Wish

NAMES = ("red", "green", "solo")
"""`solo` is an InferService, the others are sets."""
ROLE_NAMES = ("prefill", "decode", "router", "kv-pool")
ROLES_MAX, COPIES_MAX, INSTANCES_MAX, PODS_MAX = 3, 2, 3, 2
NODE_PORTS = 30100
NODE_PORTS_PER_WISH = 100
STUCK = "example/stuck"
"""Images whose pods never become ready."""
FAULTS = ("Unhealthy-node", "Unhealthy-pod-failed")
REMOVABLE = (DEPLOYMENT, STATEFUL_SET, SERVICE, INSTANCE_SET, INFER_SERVICE, POD_GROUP, HORIZONTAL_POD_AUTOSCALER)


@dataclass(frozen=True)
class Put:
    """The user creates the object or replaces its spec. `why`: what changed, for people."""

    wish: Wish
    why: str


@dataclass(frozen=True)
class Delete:
    """The user deletes the object; with `successor` the user writes one of the same name at once."""

    wish: Wish
    propagation: Propagation
    successor: Wish | None = None


@dataclass(frozen=True)
class KillPods:
    """Somebody deletes pods."""

    count: int
    pick: int


@dataclass(frozen=True)
class Fault:
    """The scheduler plugin finds a pod faulty."""

    says: str
    pick: int


@dataclass(frozen=True)
class Remove:
    """Somebody deletes an object that the operator made."""

    kind: Kind
    pick: int
    propagation: Propagation


@dataclass(frozen=True)
class Meddle:
    """Somebody edits an object that the operator made: a workload's pods, or its labels."""

    kind: Kind
    pick: int


@dataclass(frozen=True)
class Strip:
    """Somebody replaces a workload so that its annotations vanish."""

    kind: Kind
    pick: int


@dataclass(frozen=True)
class Hold:
    """New pods stay pending from now on, or no longer."""

    on: bool


Operation: TypeAlias = Put | Delete | KillPods | Fault | Remove | Meddle | Strip | Hold
Edit: TypeAlias = Callable[[Wish], Wish]
ItemT = TypeVar("ItemT")


class Generator:
    """Draws operations. `wishes`: what the users want after those drawn so far."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._image = 1
        self._history: dict[str, list[Wish]] = {name: [] for name in NAMES}
        self.wishes: dict[str, Wish] = {}
        self._is_held = False

    def next(self) -> Operation:
        """Draw one operation."""
        missing = [name for name in NAMES if name not in self.wishes]
        if missing and (len(missing) == len(NAMES) or self._chance(0.4)):
            return self._put(self._new(self._random.choice(missing)), "created")
        if self._is_held and self._chance(0.4):
            self._is_held = False
            return Hold(on=False)
        draw = self._random.random()
        if draw < 0.62:
            return self._edit()
        if draw < 0.70:
            return self._delete()
        return self._mishap()

    def finale(self) -> list[Operation]:
        """Let everything be valid and startable again; all services exist."""
        self._is_held = False
        operations: list[Operation] = [Hold(on=False)]
        for name in NAMES:
            wish = self.wishes.get(name) or self._new(name)
            operations.append(self._put(replace(wish, roles=tuple(self._mended(role) for role in wish.roles)), "mended"))
        return operations

    def _put(self, wish: Wish, why: str) -> Put:
        self.wishes[wish.name] = wish
        self._history[wish.name].append(wish)
        return Put(wish, why)

    def _delete(self) -> Operation:
        wish = self.wishes.pop(self._choose(sorted(self.wishes)))
        successor = None
        if self._chance(0.7):
            successor = wish if self._chance(0.5) else self._new(wish.name)
            self._put(successor, "recreated")
        return Delete(wish, self._random.choice(("Background", "Background", "Foreground")), successor)

    def _mishap(self) -> Operation:
        pick = self._random.randrange(1000)
        draw = self._random.random()
        if draw < 0.2:
            return KillPods(self._random.randint(1, 4), pick)
        if draw < 0.4:
            return Fault(self._random.choice(FAULTS), pick)
        if draw < 0.7:
            return Remove(self._random.choice(REMOVABLE), pick, self._random.choice(("Background", "Foreground")))
        if draw < 0.8:
            return Meddle(self._random.choice((DEPLOYMENT, STATEFUL_SET, SERVICE, INSTANCE_SET)), pick)
        if draw < 0.87:
            return Strip(self._random.choice((DEPLOYMENT, STATEFUL_SET)), pick)
        self._is_held = not self._is_held
        return Hold(self._is_held)

    def _edit(self) -> Put:
        name = self._choose(sorted(self.wishes))
        edits: dict[str, tuple[float, Edit]] = {
            "scaled": (5, self._each_role(lambda role: replace(role, replicas=self._random.randint(0, INSTANCES_MAX)))),
            "image": (5, self._each_role(self._with_image)),
            "reverted": (2, lambda wish: self._choose(self._history[wish.name])),
            "pods": (1, self._each_role(lambda role: replace(role, pods=self._random.randint(1, PODS_MAX)))),
            "copies": (2, self._with_copies),
            "roles": (2, self._with_roles),
            "kind": (1, self._each_role(lambda role: replace(role, kind=self._other_kind(role)))),
            "gang": (2, self._each_role(lambda role: replace(role, gang=not role.gang))),
            "services": (2, self._each_role(self._with_services)),
            "strategy": (1, self._with_strategy),
            "autoscaler": (2, self._each_role(self._with_bounds)),
            "rollout": (2, self._each_role(lambda role: replace(role, surge=self._random.randint(0, 1), drain_s=self._choose([0, 0, 2])))),
            "faults": (1, self._each_role(self._with_faults)),
            "selector": (1, self._each_role(lambda role: replace(role, shares_selector=not role.shares_selector))),
            "broken": (2, self._each_role(lambda role: replace(role, defect=self._choose(list(DEFECTS))))),
            "mended": (2, lambda wish: replace(wish, roles=tuple(replace(role, defect="") for role in wish.roles))),
        }
        why = self._random.choices(list(edits), [weight for weight, _ in edits.values()])[0]
        return self._put(edits[why][1](self.wishes[name]), why)

    def _each_role(self, change: Callable[[Role], Role]) -> Edit:
        """Change one role, or all of them."""

        def edit(wish: Wish) -> Wish:
            chosen = {role.name for role in wish.roles} if self._chance(0.3) else {self._choose([role.name for role in wish.roles])}
            return replace(wish, roles=tuple(change(role) if role.name in chosen else role for role in wish.roles))

        return edit

    def _new(self, name: str) -> Wish:
        names = self._random.sample(ROLE_NAMES, self._random.randint(1, ROLES_MAX))
        copies = None if name == "solo" else self._random.randint(1, COPIES_MAX)
        return Wish(name, tuple(self._new_role(name, role) for role in names), copies)

    def _new_role(self, wish: str, name: str) -> Role:
        role = Role(
            name=name,
            kind=self._random.choice(("Deployment", "StatefulSet")),
            replicas=self._random.randint(0, INSTANCES_MAX),
            pods=self._random.randint(1, PODS_MAX),
            image=f"example/good:{self._image}",
            priority=ROLE_NAMES.index(name) + 1 if self._chance(0.7) else None,
            node_port=self._port(wish, name) if self._chance(0.2) else None,
            gang=self._chance(0.3),
            surge=1 if self._chance(0.2) else 0,
            drain_s=2 if self._chance(0.2) else 0,
            shares_selector=self._chance(0.3),
        )
        return self._with_services(role) if self._chance(0.5) else role

    def _port(self, wish: str, role: str) -> int:
        return NODE_PORTS + NAMES.index(wish) * NODE_PORTS_PER_WISH + ROLE_NAMES.index(role) * (COPIES_MAX + 1)

    def _with_image(self, role: Role) -> Role:
        self._image += 1
        name = STUCK if self._chance(0.2) else "example/good"
        return replace(role, image=f"{name}:{self._image}")

    def _with_copies(self, wish: Wish) -> Wish:
        return wish if wish.copies is None else replace(wish, copies=self._random.randint(1, COPIES_MAX))

    def _with_roles(self, wish: Wish) -> Wish:
        """One role more, one less, or another order."""
        roles = list(wish.roles)
        absent = sorted(set(ROLE_NAMES) - {role.name for role in roles})
        draw = self._random.random()
        if draw < 0.4 and len(roles) < ROLES_MAX:
            roles.insert(self._random.randint(0, len(roles)), self._new_role(wish.name, self._choose(absent)))
        elif draw < 0.8 and len(roles) > 1:
            roles.remove(self._choose(roles))
        else:
            self._random.shuffle(roles)
        return replace(wish, roles=tuple(roles))

    def _with_services(self, role: Role) -> Role:
        names = ("api", "admin")
        return replace(role, services=tuple(sorted(self._random.sample(names, self._random.randint(0, 2)))))

    def _with_strategy(self, wish: Wish) -> Wish:
        return replace(wish, strategy="Parallel" if wish.strategy == "Priority" else "Priority")

    def _with_bounds(self, role: Role) -> Role:
        return replace(role, bounds=self._choose([None, (1, 2), (2, 2), (1, INSTANCES_MAX)]))

    def _with_faults(self, role: Role) -> Role:
        scheduling = self._choose(["", "external-force", "external-grace", "grace"])
        return replace(role, fault_scheduling=scheduling, retries=self._choose(["", "0", "2"]))

    def _mended(self, role: Role) -> Role:
        image = role.image.replace(STUCK, "example/good")
        return replace(role, defect="", image=image)

    def _other_kind(self, role: Role) -> str:
        return "Deployment" if role.kind == "StatefulSet" else "StatefulSet"

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _choose(self, among: Sequence[ItemT]) -> ItemT:
        return self._random.choice(among)
