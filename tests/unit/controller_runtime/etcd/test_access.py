# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.errors import ConfigError
from controller_runtime.etcd.access import Grant, parse_grant


def test_a_grant_names_a_user_and_its_prefixes() -> None:
    assert parse_grant("controller-mindie=/mindie/cluster/,/mindie/controller/") == Grant(
        "controller-mindie", ("/mindie/cluster/", "/mindie/controller/")
    )


@pytest.mark.parametrize("text", ["", "user", "=/a/", "root=/a/", "a b=/a/", "-a=/a/"])
def test_a_user_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not allowed"):
        parse_grant(text)


@pytest.mark.parametrize("prefix", ["", "/", "a/", "/a", "//", "/a//", "/a/,", "/../a b/", "/a/,/b"])
def test_a_prefix_that_would_cover_neighbours_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="must begin and end with /"):
        parse_grant(f"user={prefix}")
