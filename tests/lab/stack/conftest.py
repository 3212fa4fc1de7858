# SPDX-License-Identifier: Apache-2.0
"""One stack for all tests of this folder, in the state the test before left it; destroyed and checked at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client_pods import client_pod
from tests.support.deployed_stack import NAMESPACES, DeployedStack
from tests.support.real_lab import RealLab

ETCD_CLIENT = "etcd-client"


@pytest.fixture(scope="package")
def stack(lab: RealLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedStack]:
    """The stack of Pulumi.dev.yaml, deployed on the lab `test`."""
    stack = DeployedStack.create(lab, tmp_path_factory.mktemp("stack"))
    deployed = stack.up()
    assert deployed.code == 0, deployed.text
    yield stack
    removed = stack.remove()
    assert removed.code == 0, removed.text
    assert lab.kubectl("get", "namespaces", *NAMESPACES.values(), "--ignore-not-found", "-o", "name") == ""
    assert "mindcluster.huawei.com" not in lab.kubectl("get", "customresourcedefinitions", "-o", "name")


@pytest.fixture(scope="package")
def etcd_client(stack: DeployedStack) -> Iterator[str]:
    """A pod that etcd and the network take for the controller, on a node that no test turns off."""
    namespace = NAMESPACES["workload"]
    made = client_pod(
        namespace, ETCD_CLIENT, stack.image("runtime"), app="mindie-ms-controller", node="node4", secrets=["etcd-controller-tls"]
    )
    stack.lab.apply(made)
    stack.lab.wait_pod(namespace, ETCD_CLIENT)
    yield ETCD_CLIENT
    stack.lab.kubectl("-n", namespace, "delete", "pod", ETCD_CLIENT, "--grace-period=0", "--force")
