# SPDX-License-Identifier: Apache-2.0
"""What etcd can answer instead of a result.

EtcdError                        controller_runtime/errors.py
├── EtcdUnavailableError         no member answered in time; a write may or may not have happened
├── EtcdDeniedError              this certificate's user may not do that, or etcd knows no such user
├── EtcdNoSpaceError             the database is full: reads and deletes work, writes and new leases do not
├── CompactedError               the history asked for is gone: list again, then watch from there
├── LeaseLostError               the lease ended or was revoked
├── AlreadyThereError            the user, role or lease to create exists
└── EtcdCallError                any other refusal, with etcd's own words
"""

from __future__ import annotations

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from controller_runtime.errors import EtcdError


class EtcdUnavailableError(EtcdError):
    """No member answered in time. Whether a write was applied is unknown."""


class EtcdDeniedError(EtcdError):
    """The user named by the certificate (CN) lacks the permission."""


class EtcdNoSpaceError(EtcdError):
    """The backend quota is used up."""


class LeaseLostError(EtcdError):
    """The lease does not exist at etcd."""


class AlreadyThereError(EtcdError):
    """The thing to create exists."""


class EtcdCallError(EtcdError):
    """A refusal without a class of its own."""


class CompactedError(EtcdError):
    """The watch asked for revisions older than `compact_revision`."""

    def __init__(self, key: str, compact_revision: int) -> None:
        self.compact_revision = compact_revision
        super().__init__(f"etcd watch on {key}: history before revision {compact_revision} is compacted. List again, then watch.")


_DENIED = (Status.PERMISSION_DENIED, Status.UNAUTHENTICATED)


def refusal(call: str, error: GRPCError) -> EtcdError:
    """Translate a definite answer of etcd into an error of ours."""
    said = (error.message or error.status.name).removeprefix("etcdserver: ")
    if error.status in _DENIED or "permission denied" in said:
        return EtcdDeniedError(f"etcd {call}: {said}. Check the certificate's CN and the roles of that user.")
    if "database space exceeded" in said:
        return EtcdNoSpaceError(f"etcd {call}: {said}. Compact, defragment, then disarm the alarm.")
    if "lease not found" in said:
        return LeaseLostError(f"etcd {call}: {said}. Ask for a new lease.")
    if "already exists" in said:
        return AlreadyThereError(f"etcd {call}: {said}.")
    return EtcdCallError(f"etcd {call}: {said} ({error.status.name}).")
