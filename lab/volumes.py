# SPDX-License-Identifier: Apache-2.0
"""Dynamic volumes: one folder on the chosen node's disk per claim. Runs as a daemon of the control plane.

A claim of a class with our provisioner is served once the scheduler has chosen its node. The volume is bound
to that node, so a pod with one waits for its node, as with real local disks. A released volume is deleted
with its folder. Each round starts from what the API server says, so a restart loses nothing.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from lab import state
from lab.api_client import ApiClient, ApiError, KubeObject
from lab.objects import PROVISIONER
from lab.state import Lab

_PERIOD_S = 0.5
_FROM_CACHE = "?resourceVersion=0"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def serve(lab: Lab) -> None:
    """Provision and delete volumes for ever."""
    client = ApiClient(lab)
    while True:
        try:
            one_round(lab, client)
        except ApiError as err:
            print(err, flush=True)
        time.sleep(_PERIOD_S)


def one_round(lab: Lab, client: ApiClient) -> None:
    """Serve what is pending, delete what is released."""
    classes = _our_classes(client.get(f"/apis/storage.k8s.io/v1/storageclasses{_FROM_CACHE}")["items"])
    claims = client.get(f"/api/v1/persistentvolumeclaims{_FROM_CACHE}")["items"]
    volumes = client.get(f"/api/v1/persistentvolumes{_FROM_CACHE}")["items"]
    for claim in waiting_claims(claims, classes, {volume["metadata"]["name"] for volume in volumes}):
        volume = volume_for(claim)
        _disk(lab, _node_of(volume), volume["metadata"]["name"]).mkdir(parents=True, exist_ok=True)
        client.apply(volume)
        print("made", volume["metadata"]["name"], _node_of(volume), flush=True)
    for volume in released_volumes(volumes, classes):
        name = volume["metadata"]["name"]
        shutil.rmtree(_disk(lab, _node_of(volume), name), ignore_errors=True)
        client.delete(f"/api/v1/persistentvolumes/{name}")
        print("deleted", name, flush=True)


def waiting_claims(claims: Iterable[KubeObject], classes: set[str], existing: set[str]) -> list[KubeObject]:
    """Claims of our classes whose node is chosen and whose volume is not in `existing`."""
    return [
        claim
        for claim in claims
        if claim["spec"].get("storageClassName") in classes
        and claim["status"]["phase"] == "Pending"
        and _SELECTED_NODE in claim["metadata"].get("annotations", {})
        and _volume_name(claim) not in existing
    ]


def released_volumes(volumes: Iterable[KubeObject], classes: set[str]) -> list[KubeObject]:
    """Volumes of our classes that lost their claim and are to be deleted."""
    return [
        volume
        for volume in volumes
        if volume["spec"].get("storageClassName") in classes
        and volume["status"].get("phase") == "Released"
        and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    ]


def volume_for(claim: KubeObject) -> KubeObject:
    """The `local` volume that serves a claim, bound to it and to its node."""
    metadata, spec = claim["metadata"], claim["spec"]
    name, node = _volume_name(claim), metadata["annotations"][_SELECTED_NODE]
    this_claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": metadata["uid"]}
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": f"/var/lib/lab-volumes/{name}"},
            "claimRef": {**this_claim, "namespace": metadata["namespace"], "name": metadata["name"]},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def _our_classes(classes: Iterable[KubeObject]) -> set[str]:
    return {item["metadata"]["name"] for item in classes if item["provisioner"] == PROVISIONER}


def _volume_name(claim: KubeObject) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _node_of(volume: KubeObject) -> str:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["values"][0])


def _disk(lab: Lab, node: str, volume: str) -> Path:
    return lab.root / node / "var" / "lib" / "lab-volumes" / volume


if __name__ == "__main__":
    serve(state.require(sys.argv[1]))
