# SPDX-License-Identifier: Apache-2.0
"""Watches the workloads of one service while it is updated: which instance has which revision, and how many serve."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from controller_runtime.api.labels import INSTANCE_INDEX, INSTANCE_SET_NAME
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import DEPLOYMENT, STATEFUL_SET, Object, is_deleting, name_of, resource_version_of
from controller_runtime.reconcilers.rollout.instances import is_instance_ready
from tests.support.eventually import eventually

KINDS = (DEPLOYMENT, STATEFUL_SET)


class RolloutWatch:
    """Every state of the workloads of a namespace, as an image per instance. `history`: per role, without repetitions."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._live: dict[str, Object] = {}
        self.history: dict[str, list[dict[int, str]]] = {}
        """Per role: image of each instance by index."""
        self.serving: dict[str, list[int]] = {}
        """Per role: how many instances are ready, at each change."""

    def seen(self, old: Object | None, new: Object | None) -> None:
        """Take in a change of a workload."""
        changed = new or old
        if changed is None:
            return
        self._live.pop(name_of(changed), None)
        if new is not None and not is_deleting(new):
            self._live[name_of(new)] = new
        self._note(changed["metadata"]["labels"][INSTANCE_SET_NAME])

    def images(self, role: str) -> dict[int, str]:
        """The images of a role now."""
        return {int(each["metadata"]["labels"][INSTANCE_INDEX]): _image(each) for each in self._of(role)}

    def least(self, role: str) -> int:
        """The fewest instances of a role that were ready since `mark`."""
        return min(self.serving[role])

    async def mark(self) -> None:
        """Start over, once the watch shows what there is."""

        async def has_caught_up() -> bool:
            listed = [each for kind in KINDS for each in (await self._client.list(kind, self._namespace))[0]]
            return {name_of(each): resource_version_of(each) for each in listed} == {
                name: resource_version_of(each) for name, each in self._live.items()
            }

        await eventually(has_caught_up, "the watch has caught up")
        roles = set(self.history)
        self.history.clear()
        self.serving.clear()
        for role in roles:
            self._note(role)

    def mixtures(self, role: str) -> set[frozenset[str]]:
        """Which images were there at one time."""
        return {frozenset(state.values()) for state in self.history[role]}

    def _of(self, role: str) -> list[Object]:
        return [each for each in self._live.values() if each["metadata"]["labels"][INSTANCE_SET_NAME] == role]

    def _note(self, role: str) -> None:
        states = self.history.setdefault(role, [])
        if not states or states[-1] != self.images(role):
            states.append(self.images(role))
        self.serving.setdefault(role, []).append(sum(is_instance_ready(each) for each in self._of(role)))


@contextlib.asynccontextmanager
async def watching(client: KubeClient, namespace: str) -> AsyncIterator[RolloutWatch]:
    """Watch the workloads of a namespace."""
    stop, watch = asyncio.Event(), RolloutWatch(client, namespace)
    informers = [Informer(client, kind, namespace) for kind in KINDS]
    for informer in informers:
        informer.add_handler(watch.seen)
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run(stop))
        yield watch
        stop.set()


def _image(workload: Object) -> str:
    return str(workload["spec"]["template"]["spec"]["containers"][0]["image"])
