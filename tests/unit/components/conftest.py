# SPDX-License-Identifier: Apache-2.0
"""Stacks declared once for all tests of components; they are read only."""

from __future__ import annotations

import pytest

from tests.support.declared_stack import declared, stack_file
from tests.support.pulumi_mocks import Inventory


@pytest.fixture(scope="session")
def dev() -> Inventory:
    """The stack of `make up`: simulated engine and ClusterD."""
    return declared(stack_file("dev"))


@pytest.fixture(scope="session")
def prod() -> Inventory:
    """The example site: real engine, external ClusterD, two replicas."""
    return declared(stack_file("example-prod"))


@pytest.fixture(scope="session", params=["dev", "example-prod"])
def any_stack(request: pytest.FixtureRequest, dev: Inventory, prod: Inventory) -> Inventory:
    """Each of both."""
    return dev if request.param == "dev" else prod
