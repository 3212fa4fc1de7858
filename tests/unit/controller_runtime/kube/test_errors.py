# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from controller_runtime.kube.errors import InvalidError, UnavailableError, api_error


def test_an_apply_of_fields_that_do_not_exist_is_invalid_whatever_its_status() -> None:
    """The API server answers it with 500."""
    message = "failed to create typed patch object (ns/x; apps/v1, Kind=Deployment): .spec.unknown: field not declared in schema"

    assert type(api_error("PATCH /x", 500, {"message": message})) is InvalidError
    assert type(api_error("PATCH /x", 500, {"message": "etcdserver: leader changed"})) is UnavailableError
