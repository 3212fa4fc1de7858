# SPDX-License-Identifier: Apache-2.0
"""The manifest for `kubectl apply` says what the component says."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from components.namespace import restricted_labels
from deploy.render import MANIFEST, render

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_the_manifest_is_the_component_rendered() -> None:
    assert render() == MANIFEST.read_text(), "run `make deploy-manifests`"


def test_the_manifest_holds_all_that_an_empty_cluster_lacks_in_order_of_creation() -> None:
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    kinds = [document["kind"] for document in documents]

    assert Counter(kinds) == {
        "Namespace": 1,
        "CustomResourceDefinition": 3,
        "ServiceAccount": 1,
        "ClusterRole": 1,
        "ClusterRoleBinding": 1,
        "Role": 2,
        "RoleBinding": 2,
        "ConfigMap": 1,
        "NetworkPolicy": 1,
        "Deployment": 1,
    }
    assert (kinds[0], kinds[-1]) == ("Namespace", "Deployment")
    assert documents[0]["metadata"]["labels"] == restricted_labels()
    assert "pulumi.com" not in MANIFEST.read_text()
