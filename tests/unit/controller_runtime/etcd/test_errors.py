# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from controller_runtime.errors import EtcdError
from controller_runtime.etcd.errors import (
    AlreadyThereError,
    EtcdCallError,
    EtcdDeniedError,
    EtcdNoSpaceError,
    LeaseLostError,
    refusal,
)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (Status.PERMISSION_DENIED, "etcdserver: permission denied", EtcdDeniedError),
        (Status.UNAUTHENTICATED, None, EtcdDeniedError),
        (Status.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", EtcdNoSpaceError),
        (Status.NOT_FOUND, "etcdserver: requested lease not found", LeaseLostError),
        (Status.FAILED_PRECONDITION, "etcdserver: user name already exists", AlreadyThereError),
        (Status.INVALID_ARGUMENT, "etcdserver: key is not provided", EtcdCallError),
    ],
)
def test_etcds_words_decide_the_class(status: Status, message: str | None, kind: type[EtcdError]) -> None:
    error = refusal("Put", GRPCError(status, message))

    assert type(error) is kind
    assert str(error).startswith("etcd Put: ")
