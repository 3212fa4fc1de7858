# SPDX-License-Identifier: Apache-2.0
"""Up and down. `up` makes whatever is missing, so it also heals and resumes; `down` removes whatever it finds.

Both hold the lab's lock. Neither trusts records about processes: what runs is asked of the kernel.
"""

from __future__ import annotations

import http.client
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from lab import (
    binaries,
    certificates,
    cgroups,
    control_plane,
    fake_nodes,
    image_seed,
    images,
    kernel_settings,
    network,
    node,
    objects,
    state,
)
from lab.addresses import Addresses
from lab.api_client import ApiClient, ApiError, KubeObject
from lab.commands import wait_until
from lab.machines import Machine
from lab.state import Lab

_READY_TIMEOUT_S = 240
_KERNEL_RECORD = state.BASE / "lab" / ".kernel-settings.json"


class Progress:
    """Prints lines with the seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.1f}s  {text}", flush=True)


def up(lab: Lab, archives: Sequence[Path]) -> None:
    """Bring the lab to its description: everything runs, every node is Ready, DNS answers.

    Raises:
        LabError: something is missing on this machine or did not become ready in time.
    """
    say = Progress()
    binaries.check_system()
    with state.exclusive(lab.name):
        is_new = state.load(lab.name) is None
        kernel_settings.remember(_KERNEL_RECORD)
        lab.save()
        _ensure_images(lab, archives, say)
        if not lab.certificates.exists():
            say("making certificates")
        certificates.ensure(lab)
        network.ensure_switch(lab)
        asked_at = datetime.now(UTC)
        changed = _boot_what_is_down(lab, say)
        _wait_ready(lab, ApiClient(lab), say, since=asked_at if changed else None)
    say(f"lab {lab.name} is {'up' if is_new or changed else 'up already'}: KUBECONFIG={lab.kubeconfig}")


def down(name: str, number: int) -> list[str]:
    """Remove every trace of a lab; returns what could not be removed. Does nothing when nothing is there."""
    tree, prefix = cgroups.detect(), Addresses(number).prefix
    root = state.state_folder(name)
    machines = cgroups.machines(tree, prefix)
    if not (root.exists() or machines or network.namespaces(prefix)):
        print(f"lab {name} is not up")
        return []
    say = Progress()
    with state.exclusive(name):
        lab = Lab(name, number, (), 0, Path("/nonexistent"))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda machine: Machine(lab, machine, None).halt(), machines))
        network.remove(prefix)
        cgroups.remove(tree, prefix)
        say("machines, links and cgroups removed")
        if not [other for other in state.known() if other.name != name]:
            kernel_settings.restore(_KERNEL_RECORD)
        shutil.rmtree(root, ignore_errors=True)
    left = leftovers(name, number)
    say(f"lab {name} is down")
    return left


def leftovers(name: str, number: int) -> list[str]:
    """What still exists of a lab, one line each."""
    prefix, root = Addresses(number).prefix, state.state_folder(name)
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if f"{root}/" in line]
    links = [path.name for path in Path("/sys/class/net").iterdir() if path.name == f"{prefix}h"]
    groups = [str(hierarchy / prefix) for hierarchy in cgroups.detect().roots() if (hierarchy / prefix).exists()]
    return [*mounts, *network.namespaces(prefix), *links, *groups, *([str(root)] if root.exists() else [])]


def load_images(lab: Lab, archives: Sequence[Path]) -> None:
    """Import archives into every running node and remember them for those that are down."""
    say = Progress()
    with state.exclusive(lab.name):
        for archive in archives:
            say(f"{archive.name}: {', '.join(images.references(archive)) or 'no name inside'}")
        images.remember(lab, [archive.resolve() for archive in archives])
        _catch_up(lab, say)


def kill_node(lab: Lab, name: str) -> None:
    """Power loss of a node."""
    with state.exclusive(lab.name):
        node.power_off(lab, lab.node(name))


def start_node(lab: Lab, name: str) -> None:
    """Power on a node that is down; one that runs is left alone. Images loaded meanwhile are imported."""
    spec = lab.node(name)
    with state.exclusive(lab.name):
        if not node.machine(lab, spec).is_alive():
            node.power_on(lab, spec)
        images.catch_up(lab, spec)


def _ensure_images(lab: Lab, archives: Sequence[Path], say: Progress) -> None:
    wanted = images.with_pause(archives)
    images.remember(lab, wanted)
    if image_seed.needs_seed(lab):
        with state.exclusive("image-seeds"):
            root = image_seed.ensure_seed(wanted)
            say(f"image seed of {len(wanted)} archives")
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda spec: image_seed.plant(lab, spec, root, wanted), lab.nodes))
        say("images linked into every node")


def _boot_what_is_down(lab: Lab, say: Progress) -> bool:
    started: list[str] = []
    if not control_plane.machine(lab).is_alive():
        control_plane.boot(lab)
        started.append(state.CONTROL_PLANE)
    dead = [spec for spec in lab.nodes if not (node.machine(lab, spec).is_alive() and network.is_attached(lab, spec))]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda spec: node.power_on(lab, spec), dead))
    network.ensure_host_routes(lab)
    started += [spec.name for spec in dead]
    if started:
        say(f"started {', '.join(started)}")
    for spec in lab.nodes:
        if not network.is_plugged(lab, spec):
            network.set_cable(lab, spec, True)
            say(f"cable of {spec.name} plugged in")
    return bool(started)


def _wait_ready(lab: Lab, client: ApiClient, say: Progress, since: datetime | None) -> None:
    def step(text: str, condition: Callable[[], bool]) -> None:
        wait_until(text, condition, _READY_TIMEOUT_S, f"Read the logs in {lab.root}/log.")
        if since is not None:
            say(text)

    step("API server ready", client.is_ready)
    if since is not None or not _dns_answers(lab):
        wait_until("base objects applied", lambda: _is_done(lambda: _apply_base(lab, client)), _READY_TIMEOUT_S, period_s=0.5)
    _catch_up(lab, say)
    names = {spec.name for spec in lab.nodes}
    step(f"{len(names)} nodes Ready", lambda: names <= ready_nodes(client, since))
    step("controllers running", lambda: _is_done(lambda: client.get("/api/v1/namespaces/default/serviceaccounts/default")))
    step("DNS ready", lambda: _dns_answers(lab))
    fake_nodes.ensure(lab, client)


def _apply_base(lab: Lab, client: ApiClient) -> None:
    for wanted in objects.base_objects(lab):
        client.apply(wanted)


def _catch_up(lab: Lab, say: Progress) -> None:
    running = [spec for spec in lab.nodes if node.machine(lab, spec).is_alive()]
    behind = [spec for spec in running if images.missing_on(lab, spec)]
    with ThreadPoolExecutor(4) as pool:
        imported = list(pool.map(lambda spec: images.catch_up(lab, spec), behind))
    for spec, archives in zip(behind, imported, strict=True):
        say(f"{spec.name} imported {', '.join(archive.name for archive in archives)}")


def ready_nodes(client: ApiClient, since: datetime | None = None) -> set[str]:
    """Names of the nodes that say Ready, and said so after `since`; empty when the API server does not answer.

    Without `since` a node that just lost power still counts, until the controllers notice.
    """
    try:
        items = client.get("/api/v1/nodes?resourceVersion=0")["items"]
    except ApiError:
        return set()
    return {item["metadata"]["name"] for item in items if _said_ready(item, since)}


def _said_ready(item: KubeObject, since: datetime | None) -> bool:
    for condition in item.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return since is None or datetime.fromisoformat(condition["lastHeartbeatTime"]) >= since.replace(microsecond=0)
    return False


def _is_done(action: Callable[[], object]) -> bool:
    try:
        action()
    except ApiError:
        return False
    return True


def _dns_answers(lab: Lab) -> bool:
    connection = http.client.HTTPConnection(lab.addresses.host_ip, lab.addresses.dns_ready_port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
