# SPDX-License-Identifier: Apache-2.0
"""A client of the real API server that writes down every write it makes."""

from __future__ import annotations

import asyncio
from typing import Any

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import KubeConfig
from controller_runtime.kube.kind import EVENT, Kind, KubeObject, Object


class RecordingClient(KubeClient):
    """`writes`: `(verb, kind, namespace, name)` of each write, in order, refused ones included.

    `crash`: `(verb, task)` cancels the operator's task right after its next write of that verb to one of our own kinds or to
    a workload.
    """

    def __init__(self, config: KubeConfig) -> None:
        super().__init__(config, qps=10_000, burst=10_000)
        self.crash: tuple[str, asyncio.Task[None]] | None = None
        self.writes: list[tuple[str, str, str, str]] = []

    def writes_in(self, namespace: str) -> list[tuple[str, str, str]]:
        """Writes in one namespace as `(verb, kind, name)`, Events left out."""
        return [(verb, kind, name) for verb, kind, at, name in self.writes if at == namespace and kind != EVENT.kind]

    async def create(self, obj: KubeObject, **options: Any) -> Object:
        self._record("create", obj)
        return await super().create(obj, **options)

    async def apply(self, obj: KubeObject, **options: Any) -> Object:
        self._record("apply", obj)
        return await super().apply(obj, **options)

    async def apply_status(self, obj: KubeObject, **options: Any) -> Object:
        self._record("status", obj)
        return await super().apply_status(obj, **options)

    async def patch(self, kind: Kind, name: str, namespace: str | None, patch: object, *arguments: Any, **options: Any) -> Object:
        self.writes.append(("patch", kind.kind, namespace or "", name))
        patched = await super().patch(kind, name, namespace, patch, *arguments, **options)
        await self._crash_after("patch", kind)
        return patched

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, **options: Any) -> None:
        self.writes.append(("delete", kind.kind, namespace or "", name))
        await super().delete(kind, name, namespace, **options)
        await self._crash_after("delete", kind)

    async def _crash_after(self, verb: str, kind: Kind) -> None:
        if self.crash is not None and self.crash[0] == verb and kind != EVENT:
            self.crash[1].cancel()
            await asyncio.Event().wait()

    def _record(self, verb: str, obj: KubeObject) -> None:
        metadata: Any = obj["metadata"]
        self.writes.append((verb, str(obj["kind"]), metadata.get("namespace", ""), metadata["name"]))
