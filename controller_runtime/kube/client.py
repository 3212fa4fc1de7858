# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API on plain objects.

Writes are server-side apply wherever the caller owns the fields: an apply states our fields only, so `force` takes over
exactly those and leaves the rest of the object to others. Deletes carry preconditions, so that a decision taken on an old
copy cannot remove a successor of the same name.
"""

from __future__ import annotations

import builtins
import copy
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal, NamedTuple

import orjson

from controller_runtime.errors import TransportError
from controller_runtime.kube.config import KubeConfig
from controller_runtime.kube.errors import GoneError, api_error
from controller_runtime.kube.kind import Kind, KubeObject, Object, kind_of, metadata_of
from controller_runtime.kube.rate_limit import Limiter, TokenBucket
from controller_runtime.kube.transport import JSON, Check, Transport

FIELD_MANAGER = "ascend-pd-infer-operator"
PAGE_SIZE = 500
CALL_TIMEOUT_S = 30.0
WATCH_TIMEOUT_S = (300, 600)
"""The server ends a watch after a random time in this range, so that many watchers do not come back together."""
WATCH_IDLE_S = 90.0
"""A healthy watch is never silent longer: bookmarks come about once a minute."""

PatchType = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]
_PATCH_CONTENT = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY_CONTENT = "application/apply-patch+yaml"


class WatchEvent(NamedTuple):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; a bookmark's object has nothing but its resource version."""

    type: str
    object: Object


class KubeClient:
    """A client of one API server, for one event loop. All calls share one rate limit.

    Every call raises an `ApiError` (`NotFoundError`, `ConflictError`, ...) when the server refuses and a `TransportError`
    when there is no usable answer.
    """

    def __init__(
        self,
        config: KubeConfig,
        *,
        field_manager: str = FIELD_MANAGER,
        qps: float = 50.0,
        burst: int = 100,
        limiter: Limiter | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        watch_idle_s: float = WATCH_IDLE_S,
    ) -> None:
        self.namespace = config.namespace
        self._field_manager = field_manager
        self._transport = Transport(
            config,
            limiter or TokenBucket(qps, burst),
            user_agent=field_manager,
            timeout_s=timeout_s,
            stream_idle_s=watch_idle_s,
        )
        self._check: Check | None = None

    def fenced(self, check: Check) -> KubeClient:
        """This client for work that not everybody may do: `check` is called right before each write leaves, and raises to stop it."""
        twin = copy.copy(self)
        twin._check = check
        return twin

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """Read one object from the server, not from a cache."""
        return _object(await self._transport.call("GET", kind.path(namespace, name)))

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
    ) -> tuple[list[Object], str]:
        """Read a whole collection page by page: `(items, resource_version)`, all of the same version.

        When the version of the first page expires before the last one is read, the collection is read in one answer.
        """
        selectors = _without_empty(labelSelector=label_selector, fieldSelector=field_selector)
        try:
            return await self._pages(kind, namespace, {**selectors, "limit": str(page_size)})
        except GoneError:
            return await self._pages(kind, namespace, selectors)

    async def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: int | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes after `resource_version` until the server ends the watch (`timeout_s`, random by default).

        Raises:
            GoneError: the version is too old; list again.
            TransportError: the connection broke or was silent for too long.
        """
        params = _without_empty(labelSelector=label_selector, fieldSelector=field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s or random.randint(*WATCH_TIMEOUT_S)),
        }
        path = kind.path(namespace)
        async with self._transport.stream(path, params) as batches, aclosing(batches) as lines:
            async for batch in lines:
                for line in batch:
                    yield _event(line, path)

    async def create(self, obj: KubeObject, *, kind: Kind | None = None, dry_run: bool = False) -> Object:
        """Create an object; `AlreadyExistsError` when its name is taken."""
        kind = kind or kind_of(obj)
        path = kind.path(metadata_of(obj).get("namespace"))
        return await self._write("POST", path, obj, dry_run=dry_run)

    async def replace(self, obj: KubeObject, *, kind: Kind | None = None) -> Object:
        """Write the whole object. Its `resourceVersion` makes it conditional: `ConflictError` when somebody was faster."""
        path = _path(obj, kind or kind_of(obj))
        return await self._write("PUT", path, obj)

    async def apply(self, obj: KubeObject, *, kind: Kind | None = None, force: bool = True, dry_run: bool = False) -> Object:
        """Server-side apply: create the object or set exactly the fields in `obj`, and drop our fields that it no longer has.

        `force=False` raises `ConflictError` when another manager owns one of the fields with a different value.
        A `metadata.uid` in `obj` makes it an update of that very object, never a creation.
        """
        return await self._apply(obj, kind or kind_of(obj), None, force, dry_run)

    async def apply_status(self, obj: KubeObject, *, kind: Kind | None = None, force: bool = True) -> Object:
        """Server-side apply of `obj["status"]` alone. The object must exist."""
        metadata = {key: value for key, value in metadata_of(obj).items() if key in ("name", "namespace", "uid", "resourceVersion")}
        body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "status": obj["status"]}
        return await self._apply(body, kind or kind_of(obj), "status", force, dry_run=False)

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        patch: object,
        patch_type: PatchType = "merge",
        *,
        subresource: str | None = None,
    ) -> Object:
        """Patch an object. `json` patches are a list of operations, the others a partial object."""
        path = kind.path(namespace, name, subresource)
        return await self._write("PATCH", path, patch, content_type=_PATCH_CONTENT[patch_type])

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_s: int | None = None,
    ) -> None:
        """Ask for deletion. `uid` and `resource_version` are preconditions: `ConflictError` when the object is another one."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if preconditions := _without_empty(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self._transport.call("DELETE", kind.path(namespace, name), body=options, check=self._check)

    async def call(self, method: str, path: str, body: object | None = None) -> Object:
        """Make any other request, for example a token request of a service account, or `GET /version`."""
        return _object(await self._transport.call(method, path, body=body, check=None if method == "GET" else self._check))

    async def close(self) -> None:
        """Close every connection; running watches end."""
        await self._transport.close()

    async def _pages(self, kind: Kind, namespace: str | None, params: Mapping[str, str]) -> tuple[builtins.list[Object], str]:
        items: list[Object] = []
        token = ""
        while True:
            page = await self._transport.call("GET", kind.path(namespace), params=dict(params) | _without_empty({"continue": token}))
            items += page["items"] or ()
            metadata = page["metadata"]
            token = metadata.get("continue") or ""
            if not token:
                break
        for item in items:  # the server leaves these out in lists of built-in kinds
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
        return items, str(metadata["resourceVersion"])

    async def _apply(self, obj: KubeObject, kind: Kind, subresource: str | None, force: bool, dry_run: bool) -> Object:
        path = _path(obj, kind, subresource)
        return await self._write("PATCH", path, obj, dry_run=dry_run, content_type=_APPLY_CONTENT, force="true" if force else "false")

    async def _write(
        self, method: str, path: str, body: object, *, dry_run: bool = False, content_type: str = JSON, **params: str
    ) -> Object:
        query = {"fieldManager": self._field_manager, **({"dryRun": "All"} if dry_run else {}), **params}
        return _object(await self._transport.call(method, path, params=query, body=body, content_type=content_type, check=self._check))


def _event(line: bytes, path: str) -> WatchEvent:
    try:
        event = orjson.loads(line)
        kind, obj = event["type"], event["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as err:
        raise TransportError(f"watch {path}: a line is not a watch event. The watch starts again.") from err
    if kind == "ERROR":
        raise api_error(f"watch {path}", int(obj.get("code") or 500), obj)
    return WatchEvent(kind, obj)


def _path(obj: KubeObject, kind: Kind, subresource: str | None = None) -> str:
    metadata = metadata_of(obj)
    return kind.path(metadata.get("namespace"), metadata["name"], subresource)


def _object(answer: Any) -> Object:
    if not isinstance(answer, dict):
        raise TransportError("the API server answered something that is not an object. Check what listens there.")
    return answer


def _without_empty(pairs: Mapping[str, str | None] | None = None, **more: str | None) -> dict[str, str]:
    return {key: value for key, value in {**(pairs or {}), **more}.items() if value}
