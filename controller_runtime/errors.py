# SPDX-License-Identifier: Apache-2.0
"""The exception tree.

    AscendPdError
    ├── ConfigError              bad input of a user: file, setting, environment (exit 78)
    ├── TerminalError            a reconcile that must not be tried again until its object changes
    ├── TemporaryError           not now: try again later (exit 75)
    │   └── DeadlineError        a bounded wait ended
    ├── TransportError           no usable answer from a peer
    │   ├── PeerRefusedError     TLS or identity: the peer is not who it must be, or refuses us
    │   └── StatusError          the peer answered, not with success
    ├── KubeError                the API server refused a call (kube/errors.py has one class per reason)
    ├── EtcdError                etcd refused a call (etcd/errors.py)
    └── LostLeadershipError      a write of a leader that is none any more

A message answers what, where, how to fix, in that order, and never contains a secret.
"""

from __future__ import annotations

from collections.abc import Sequence


class AscendPdError(Exception):
    """Base of every error this project raises on purpose."""

    exit_code: int = 1


class ConfigError(AscendPdError):
    """Bad input. Carries every problem found, not only the first.

    `problems`: one finished sentence each, `<where>: <what>. <how to fix>.`
    """

    exit_code = 78

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class TerminalError(AscendPdError):
    """Trying again cannot help until the object changes."""


class TemporaryError(AscendPdError):
    """Trying again later can help."""

    exit_code = 75


class DeadlineError(TemporaryError):
    """A bounded wait ended without what it waited for."""


class TransportError(AscendPdError):
    """No usable answer: refused, reset, timed out, or not the declared format."""


class PeerRefusedError(TransportError):
    """The TLS handshake failed, or the peer's certificate names somebody else."""


class StatusError(TransportError):
    """The peer answered with a status that is not success."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class KubeError(AscendPdError):
    """The Kubernetes API server refused a call."""


class EtcdError(AscendPdError):
    """etcd refused a call."""


class LostLeadershipError(EtcdError):
    """The write was guarded by a lock that is no longer ours; nothing was written."""
