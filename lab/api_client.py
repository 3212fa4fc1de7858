# SPDX-License-Identifier: Apache-2.0
"""A small JSON client of the lab's API server, as administrator, over one kept-alive connection."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from lab.errors import LabError
from lab.state import Lab

_TIMEOUT_S = 10.0
_FIELD_MANAGER = "ascend-pd-lab"
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "EndpointSlice": "endpointslices",
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "Service": "services",
    "StorageClass": "storageclasses",
}
KubeObject = dict[str, Any]


class ApiError(LabError):
    """The API server refused (`status` is the HTTP status) or did not answer (`status` 0)."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class ApiClient:
    """Not for two threads at once. `certificates`: folder with ca.crt, admin.crt, admin.key."""

    def __init__(self, lab: Lab) -> None:
        self._url = lab.addresses.api_url
        self._context = ssl.create_default_context(cafile=str(lab.certificates / "ca.crt"))
        self._context.load_cert_chain(lab.certificates / "admin.crt", lab.certificates / "admin.key")
        self._connection: http.client.HTTPSConnection | None = None

    def get(self, path: str) -> KubeObject:
        """GET an object or a list."""
        return self._json("GET", path)

    def is_ready(self) -> bool:
        """True when /readyz says ok."""
        try:
            return self._call("GET", "/readyz") == b"ok"
        except ApiError:
            return False

    def apply(self, wanted: KubeObject) -> None:
        """Server-side apply, forced: the lab owns what it applies."""
        query = f"?fieldManager={_FIELD_MANAGER}&force=true"
        self._call("PATCH", object_path(wanted) + query, wanted, "application/apply-patch+yaml")

    def apply_status(self, wanted: KubeObject) -> None:
        """Server-side apply of the status subresource."""
        query = f"/status?fieldManager={_FIELD_MANAGER}&force=true"
        self._call("PATCH", object_path(wanted) + query, wanted, "application/apply-patch+yaml")

    def delete(self, path: str) -> None:
        """DELETE an object; one that is gone already is no error."""
        try:
            self._call("DELETE", path)
        except ApiError as err:
            if err.status != 404:
                raise

    def close(self) -> None:
        """Drop the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _json(self, method: str, path: str) -> KubeObject:
        answer = json.loads(self._call(method, path))
        if not isinstance(answer, dict):
            raise ApiError(f"{self._url}{path}: the answer is no JSON object. Look at the API server's log.", 0)
        return answer

    def _call(self, method: str, path: str, body: KubeObject | None = None, content_type: str = "application/json") -> bytes:
        data = None if body is None else json.dumps(body).encode()
        if self._connection is None:
            target = urlsplit(self._url)
            self._connection = http.client.HTTPSConnection(target.netloc, timeout=_TIMEOUT_S, context=self._context)
        try:
            self._connection.request(method, path, data, {"Content-Type": content_type})
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as err:
            self.close()
            raise ApiError(f"{self._url}: no answer ({err}). Run `up` again, or read the API server's log.", 0) from err
        if response.status >= 400:
            raise ApiError(f"{method} {path}: refused with {response.status}: {content.decode(errors='replace')}", response.status)
        return content


def object_path(wanted: KubeObject) -> str:
    """URL path of an object of one of the kinds the lab writes."""
    version, metadata = wanted["apiVersion"], wanted["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{scope}/{_PLURALS[wanted['kind']]}/{metadata['name']}"
