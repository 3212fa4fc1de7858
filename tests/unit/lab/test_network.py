# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from lab.network import overlapping_route


@pytest.mark.parametrize(
    ("routes", "found"),
    [
        (["default", "192.0.2.0/24"], None),
        (["10.0.0.0/8"], ("10.0.0.0/8", "10.99.4.0/24")),
        (["10.132.7.1"], ("10.132.7.1", "10.132.0.0/16")),
        (["10.99.5.0/24", "10.133.0.0/16"], None),
    ],
)
def test_a_route_that_covers_a_subnet_of_the_lab_is_found(routes: list[str], found: tuple[str, str] | None) -> None:
    assert overlapping_route(routes, ["10.99.4.0/24", "10.132.0.0/16"]) == found
