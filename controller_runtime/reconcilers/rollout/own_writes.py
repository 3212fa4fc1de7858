# SPDX-License-Identifier: Apache-2.0
"""Workloads as our own last write left them, for as long as the cache does not show it.

A cache lags. Without this an instance that was just taken out of service would count as serving, and a second one might
follow. Nothing is lost in a crash: a new process starts with a fresh list.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller_runtime.kube.kind import Kind, Object, is_deleting, resource_version_of, uid_of
from controller_runtime.kube.workqueue import Request


class OwnWrites:
    """Our writes to the workloads of each InstanceSet that its cache has not shown yet."""

    def __init__(self) -> None:
        self._written: dict[Request, dict[str, Object]] = {}

    def note(self, request: Request, written: Object) -> None:
        """Remember a workload as the API server answered."""
        self._written.setdefault(request, {})[uid_of(written)] = written

    def note_deletion(self, request: Request, deleted: Object) -> None:
        """Remember that a workload is on its way out."""
        going = {**deleted, "metadata": {**deleted["metadata"], "deletionTimestamp": "asked"}}
        self._written.setdefault(request, {})[uid_of(deleted)] = going

    def freshest(self, request: Request, cached: Mapping[Kind, Mapping[str, Object]]) -> dict[Kind, dict[str, Object]]:
        """`cached` by kind and name, with what we know better. What the cache has caught up with is forgotten."""
        written = self._written.pop(request, {})
        newer = {
            uid_of(each): mine
            for of_kind in cached.values()
            for each in of_kind.values()
            if (mine := written.get(uid_of(each))) is not None and _is_newer(mine, each)
        }
        if newer:
            self._written[request] = newer
        return {kind: {name: newer.get(uid_of(each), each) for name, each in of_kind.items()} for kind, of_kind in cached.items()}

    def forget(self, request: Request) -> None:
        """Drop what is remembered of an InstanceSet that is gone."""
        self._written.pop(request, None)


def _is_newer(mine: Object, cached: Object) -> bool:
    if is_deleting(mine):
        return not is_deleting(cached)
    return int(resource_version_of(mine) or 0) > int(resource_version_of(cached) or 0)
