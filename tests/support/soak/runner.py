# SPDX-License-Identifier: Apache-2.0
"""Carries out operations on a real API server, and at the end compares everything in the namespace with the model."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from controller_runtime.api.labels import INSTANCE_SET_NAME, OPERATOR, POD_STATUS
from controller_runtime.kube.errors import ConflictError, NotFoundError
from controller_runtime.kube.kind import POD, Kind, Object, controller_owner_of, is_deleting, name_of
from tests.support.eventually import eventually
from tests.support.operator_run import Cluster
from tests.support.ready_pods import ReadyPods
from tests.support.soak.expected import Portraits, expected
from tests.support.soak.observed import Snapshot
from tests.support.soak.operations import STUCK, Delete, Fault, Generator, Hold, KillPods, Meddle, Operation, Put, Remove, Strip
from tests.support.soak.wishes import Wish

PAUSE_S = 1.0
BURST = 0.25
"""Share of operations that follow at once."""
GONE_WITHIN_S = 90
SHOWN = 40
"""Differences to print."""
READING = ("get", "list", "watch")


class Runner:
    """Users and mishaps in one namespace. `done`: operations so far."""

    def __init__(self, cluster: Cluster, pods: ReadyPods, seed: int, say: Callable[[str], None]) -> None:
        self._cluster, self._pods, self._say = cluster, pods, say
        self._generator = Generator(seed)
        self._pauses = random.Random(seed + 1)
        self.done = 0
        pods.stuck_image = STUCK

    async def operate(self, seconds: float) -> None:
        """Carry out operations for so long."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await self.carry_out(self._generator.next())
            if self._pauses.random() > BURST:
                await asyncio.sleep(self._pauses.expovariate(1 / PAUSE_S))

    async def finish(self) -> None:
        """Carry out what makes every service startable."""
        for operation in self._generator.finale():
            await self.carry_out(operation)

    async def carry_out(self, operation: Operation) -> None:
        """Do one thing. What is not there cannot be killed."""
        self.done += 1
        self._say(_told(operation))
        match operation:
            case Put(wish, _):
                await self._put(wish)
            case Delete(wish, propagation, successor):
                await self._cluster.client.delete(wish.kind, wish.name, self._cluster.namespace, propagation=propagation)
                if successor is not None:
                    await self._put(successor)
            case Hold(on):
                if on:
                    self._pods.hold = True
                else:
                    self._pods.release()
            case _:
                with suppress(NotFoundError, ConflictError):
                    await self._mishap(operation)

    async def differences(self) -> list[str]:
        """Whatever is not as the wishes have it: empty when the namespace is as it must be."""
        snapshot = await Snapshot.take(self._cluster.client, self._cluster.namespace)
        wanted = expected(self._generator.wishes.values(), snapshot.scales)
        return [
            *_compared(wanted, snapshot.portraits()),
            *(f"leaked: {each}" for each in snapshot.leaked()),
            *(f"mixed: {each}" for each in snapshot.mixed_revisions()),
        ]

    async def until_as_wished(self, timeout_s: float) -> None:
        """Wait until there is no difference."""
        last: list[str] = []

        async def is_as_wished() -> bool:
            last[:] = await self.differences()
            if last:
                await asyncio.sleep(PAUSE_S)
            return not last

        try:
            await eventually(is_as_wished, "the namespace is as wished", timeout_s)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *last[:SHOWN], f"{len(last)} differences"])) from None

    async def _put(self, wish: Wish) -> None:
        async def is_free_or_alive() -> bool:
            found = await self._cluster.find(wish.kind, wish.name)
            return found is None or not is_deleting(found)

        await eventually(is_free_or_alive, f"{wish.name} is gone", GONE_WITHIN_S)
        try:
            await self._cluster.edit(wish.kind, wish.name, ("replace", "/spec", wish.spec()))
        except NotFoundError:
            await self._cluster.client.create(wish.written(self._cluster.namespace))

    async def _mishap(self, operation: KillPods | Fault | Remove | Meddle | Strip) -> None:
        client, namespace = self._cluster.client, self._cluster.namespace
        match operation:
            case KillPods(count, pick):
                pods = await self._made(POD)
                for place in range(min(count, len(pods))):
                    await client.delete(POD, name_of(pods[(pick + place) % len(pods)]), namespace)
            case Fault(says, pick):
                await self._patch_one(POD, pick, {"metadata": {"annotations": {POD_STATUS: says}}})
            case Remove(kind, pick, propagation):
                if (victim := _chosen(await self._made(kind), pick)) is not None:
                    await client.delete(kind, name_of(victim), namespace, propagation=propagation)
            case Meddle(kind, pick):
                await self._patch_one(kind, pick, _meddling(kind, pick))
            case Strip(kind, pick):
                await self._patch_one(kind, pick, {"metadata": {"annotations": None}})

    async def _patch_one(self, kind: Kind, pick: int, patch: Object) -> None:
        if (victim := _chosen(await self._made(kind), pick)) is not None:
            await self._cluster.client.patch(kind, name_of(victim), self._cluster.namespace, patch)

    async def _made(self, kind: Kind) -> list[Object]:
        """Objects of a kind that have a controller, so no user wrote them."""
        found = (await self._cluster.client.list(kind, self._cluster.namespace))[0]
        return sorted((each for each in found if controller_owner_of(each) is not None), key=name_of)


def writes_of(audit_log: Path, user: str, since: int = 0) -> list[str]:
    """Every write of a user that the API server noted after `since` bytes, its lease left out. A long log begins anew."""
    with audit_log.open("rb") as log:
        log.seek(since if since <= audit_log.stat().st_size else 0)
        noted = [json.loads(line) for line in log.read().splitlines(keepends=True) if line.endswith(b"\n")]
    return [
        f"{each['verb']} {each['requestURI'].partition('?')[0]}"
        for each in noted
        if each["user"]["username"] == user and each["verb"] not in READING and "/leases" not in each["requestURI"]
    ]


def _meddling(kind: Kind, pick: int) -> Object:
    match kind.kind:
        case "InstanceSet":
            return {"spec": {"replicas": 4}}
        case "Service":
            return {"spec": {"selector": {INSTANCE_SET_NAME: "nobody"}}}
        case _ if pick % 2:
            return {"metadata": {"labels": {OPERATOR: None}}}
        case _:
            return {"spec": {"replicas": 3}}


def _chosen(among: list[Object], pick: int) -> Object | None:
    return among[pick % len(among)] if among else None


def _told(operation: Operation) -> str:
    match operation:
        case Put(wish, why):
            return f"{why}: {wish}"
        case Delete(wish, propagation, successor):
            return f"delete {wish.name} ({propagation})" + (f" and write {successor}" if successor else "")
        case Remove(kind, _, propagation):
            return f"remove a {kind.kind} ({propagation})"
        case Meddle(kind, _) | Strip(kind, _):
            return f"{type(operation).__name__.lower()} with a {kind.kind}"
        case _:
            return str(operation)


def _compared(wanted: Portraits, found: Portraits) -> list[str]:
    missing = [f"missing: {key}" for key in sorted(wanted.keys() - found.keys())]
    extra = [f"left over: {key}, owner {found[key]['owner']}" for key in sorted(found.keys() - wanted.keys())]
    wrong = [line for key in sorted(wanted.keys() & found.keys()) for line in _wrong(key, wanted[key], found[key])]
    return [*missing, *extra, *wrong]


def _wrong(key: str, wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [
        f"wrong: {key} {fact}: is {found.get(fact)}, must be {wanted.get(fact)}"
        for fact in sorted(wanted.keys() | found.keys())
        if wanted.get(fact) != found.get(fact)
    ]
