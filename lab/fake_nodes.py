# SPDX-License-Identifier: Apache-2.0
"""Nodes that exist only as objects, for thousands of pods: kwok answers for them.

They are tainted, so only pods that tolerate `kwok.x-k8s.io/node=fake:NoSchedule` land there.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.api_client import ApiClient, KubeObject
from lab.errors import LabError
from lab.state import Lab
from lab.topology import CLASSES, NPU_RESOURCE, POOL_LABEL

_ANNOTATION = "kwok.x-k8s.io/node"
_CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "1000", "ephemeral-storage": "1Ti"}


def stage_file(folder: Path) -> Path:
    """kwok's own stages: `LAB_KWOK_STAGES`, else `kwok-stages.yaml` beside the program.

    Raises:
        LabError: there is none, without which kwok does not start.
    """
    given = os.environ.get("LAB_KWOK_STAGES")
    file = Path(given) if given else (folder / "kwok").resolve().with_name("kwok-stages.yaml")
    if not file.exists():
        raise LabError(f"{file}: kwok's stages are missing. Run `make tools`, or name the file in LAB_KWOK_STAGES.")
    return file


def command(lab: Lab) -> list[str]:
    """Words that start kwok for this lab.

    Raises:
        LabError: kwok or its stage files are missing.
    """
    program = lab.binaries / "kwok"
    if not program.exists():
        raise LabError(f"{program} is missing, which --fake-nodes needs. Run `make tools`.")
    at = lab.addresses
    return [
        str(program),
        f"--kubeconfig={lab.kubeconfig}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={_ANNOTATION}=fake",
        "--node-lease-duration-seconds=40",
        f"--cidr={at.fake_pod_cidr}",
        "--node-ip=127.0.0.1",
        f"--server-address=127.0.0.1:{at.fake_node_port}",
        f"--config={stage_file(lab.binaries)}",
    ]


def fake_node(index: int) -> KubeObject:
    """Node `fake<index>` (1-based); odd ones are of the prefill class, even ones of decode."""
    node_class = CLASSES["prefill" if index % 2 else "decode"]
    name = f"fake{index}"
    labels = {"kubernetes.io/hostname": name, "type": "kwok", POOL_LABEL: node_class.pool, **node_class.labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {_ANNOTATION: "fake"}, "labels": labels},
        "spec": {"taints": [{"key": _ANNOTATION, "value": "fake", "effect": "NoSchedule"}]},
    }


def ensure(lab: Lab, client: ApiClient) -> None:
    """Create the fake nodes that are missing, with capacity for many pods and the devices of their class."""
    if not lab.fake_nodes:
        return
    existing = {item["metadata"]["name"] for item in client.get("/api/v1/nodes?labelSelector=type%3Dkwok")["items"]}
    for index in range(1, lab.fake_nodes + 1):
        node = fake_node(index)
        if node["metadata"]["name"] in existing:
            continue
        client.apply(node)
        resources = {**_CAPACITY, NPU_RESOURCE: str(CLASSES["prefill"].npus)}
        client.apply_status({**node, "status": {"capacity": resources, "allocatable": resources}})
