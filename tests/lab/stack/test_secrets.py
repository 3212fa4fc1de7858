# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64

import pytest

from tests.support.deployed_stack import NAMESPACES, PASSPHRASE, DeployedStack
from tests.support.real_lab import KubeObject

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]

KINDS = ",".join(
    (
        *("configmaps", "pods", "deployments", "replicasets", "statefulsets", "controllerrevisions", "jobs", "services", "events"),
        *("inferservicesets", "inferservices", "instancesets"),
    )
)
PEM_STARTS = tuple(f"-----BEGIN {kind}PRIVATE KEY" for kind in ("", "EC ", "RSA ", "ENCRYPTED "))
IN_BASE64 = tuple(base64.b64encode(start.encode()).decode()[:24] for start in PEM_STARTS)


def test_no_key_and_no_passphrase_stands_in_clear_in_the_state_or_outside_secrets(stack: DeployedStack) -> None:
    secrets = [item for namespace in NAMESPACES.values() for item in stack.lab.get("secrets", "-n", namespace)["items"]]
    keys = [_key(item) for item in secrets if "tls.key" in item.get("data", {})]
    needles = [*PEM_STARTS, *IN_BASE64, PASSPHRASE, *(needle for key in keys for needle in _needles(key))]
    opened = stack.pulumi("stack", "export", "--show-secrets")
    assert len(keys) > 15
    assert all(any(needle in opened.text for needle in _needles(key)) for key in keys), "the search finds keys where they are"

    state = stack.pulumi("stack", "export")
    objects = stack.lab.kubectl("get", KINDS, "--all-namespaces", "-o", "json", "--show-managed-fields")
    annotations = "\n".join(str(item["metadata"]) for item in secrets)

    assert (state.code, '"ciphertext"' in state.text) == (0, True)
    for name, text in {"state": state.text, "objects": objects, "metadata of Secrets": annotations}.items():
        assert not any(needle in text for needle in needles), name


def _key(secret: KubeObject) -> str:
    return base64.b64decode(secret["data"]["tls.key"]).decode()


def _needles(key: str) -> list[str]:
    """A line of the key as it stands in PEM, and the start of the whole in base64, as a Secret carries it."""
    return [key.splitlines()[1], base64.b64encode(key.encode()).decode()[60:120]]
