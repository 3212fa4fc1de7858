# SPDX-License-Identifier: Apache-2.0
"""What the API server answers when it refuses, one class per reason a caller treats differently.

    KubeError
    └── ApiError                   any status that is not success: `status`, `reason`, `retry_after_s`
        ├── NotFoundError          404
        ├── ConflictError          409: older resource version, field owned by another manager, failed precondition
        │   └── AlreadyExistsError 409 on create
        ├── GoneError              410: resource version or continue token too old, list again
        ├── UnauthorizedError      401 after the credentials were read again
        ├── ForbiddenError         403: RBAC, quota or admission
        ├── InvalidError           400, 422: the object breaks its schema or a validation (of an apply also 500, see below)
        ├── TooManyRequestsError   429 after the retries of the client
        └── UnavailableError       5xx

Failures of the network itself are `TransportError`s of the shared tree. A lost lease is a `LeaseLostError`.
"""

from __future__ import annotations

import contextlib

import orjson

from controller_runtime.errors import KubeError, TemporaryError


class ApiError(KubeError):
    """The server's refusal. `reason` is the machine-readable word of its Status object, `""` when it sent none."""

    def __init__(self, message: str, *, status: int, reason: str = "", retry_after_s: float | None = None) -> None:
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(message)


class NotFoundError(ApiError):
    """No such object, or no such resource type."""


class ConflictError(ApiError):
    """The object is not what the caller thought: read again and decide again."""


class AlreadyExistsError(ConflictError):
    """An object of this name exists."""


class GoneError(ApiError):
    """The history asked for is compacted."""


class UnauthorizedError(ApiError):
    """The server does not know who we are."""


class ForbiddenError(ApiError):
    """The server knows us and refuses."""


class InvalidError(ApiError):
    """The object is wrong: trying again cannot help."""


class TooManyRequestsError(ApiError):
    """The server sheds load; an eviction or priority level says wait."""


class UnavailableError(ApiError):
    """The server cannot answer now."""


class LeaseLostError(TemporaryError):
    """The lease was not renewed in time, so another replica may lead: stop and start over."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}

_NOT_OF_ITS_TYPE = "failed to create typed patch object"
"""How the API server, with status 500, begins its refusal of an apply whose fields are unknown or of another type."""


def api_error(call: str, status: int, body: bytes | dict[str, object], retry_after: str | None = None) -> ApiError:
    """Build the error of one refused call. `call` is for people: `GET /api/v1/pods`; `body` the Status object, raw or parsed."""
    document: object = body
    if isinstance(body, bytes):
        document = None
        with contextlib.suppress(orjson.JSONDecodeError):
            document = orjson.loads(body)
    if not isinstance(document, dict):
        document = {"message": body.decode(errors="replace").strip()[:300] if isinstance(body, bytes) else ""}
    reason = str(document.get("reason") or "")
    cause = str(document.get("message") or reason or "no explanation")
    error = _BY_STATUS.get(status, UnavailableError if status >= 500 else ApiError)
    if cause.startswith(_NOT_OF_ITS_TYPE):
        error = InvalidError
    if reason == "AlreadyExists":
        error = AlreadyExistsError
    return error(f"{call}: {status} {cause}", status=status, reason=reason, retry_after_s=_seconds(retry_after, document.get("details")))


def _seconds(header: str | None, details: object) -> float | None:
    if header is not None and header.strip().isdigit():
        return float(header)
    hint = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return float(hint) if isinstance(hint, int) and hint > 0 else None
