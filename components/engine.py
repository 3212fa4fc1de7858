# SPDX-License-Identifier: Apache-2.0
"""A container of the real engine in the place of the simulated one: same ports, same identities, same probes.

The site's image has no `probe`, so an init container of the runtime image hands its file over; both see it
read-only afterwards. Source: deployment manual, boot sequence and environment of the sample manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulumi import Input

from components.pods import Container, Volume, config_volume, scratch_volume
from controller_runtime.api.engine import EngineSpec
from controller_runtime.api.stack import Resources

PROBE_SOURCE = "/opt/ascend-pd/lib/controller_runtime/cli/probe.py"
"""Where the runtime image keeps the probe, which needs the standard library only."""
PROBE_ROOT = "/opt/probe"
PROBE_COMMAND = ("python3", f"{PROBE_ROOT}/probe.py")
WEIGHTS_ROOT = "/mnt/weights"
DRIVER_LIBRARIES = ("/usr/local/Ascend/driver/lib64/driver", "/usr/local/Ascend/driver/lib64/common")
"""Where Ascend's container runtime mounts the driver of the node."""


def on_engine(container: Container, engine: EngineSpec, command: Sequence[str]) -> Container:
    """Run `command` of the engine instead. A relative command is below the install path."""
    first = command[0] if command[0].startswith("/") else f"{engine.install_path}/{command[0]}"
    return replace(
        container,
        command=[first, *command[1:]],
        working_dir=engine.install_path,
        env=engine_environment(engine),
        volumes=[*container.volumes, *_volumes(engine)],
    )


def probe_installer(runtime_image: Input[str]) -> Container:
    """Init container that copies the probe to where the engine's container finds it."""
    return Container(
        name="probe-installer",
        image=runtime_image,
        command=["cp", PROBE_SOURCE, f"{PROBE_ROOT}/probe.py"],
        resources=Resources(),
        volumes=[replace(_probe_volume(), read_only=False)],
    )


def engine_environment(engine: EngineSpec) -> dict[str, str]:
    """What the manual sets, then what the site adds."""
    libraries = f"{engine.install_path}/lib"
    return {
        "MIES_INSTALL_PATH": engine.install_path,
        "HSECEASY_PATH": libraries,
        "LD_LIBRARY_PATH": ":".join((libraries, *DRIVER_LIBRARIES)),
        "MIES_CONTAINER_IP": "$(POD_IP)",
        "MIES_CONTAINER_MANAGEMENT_IP": "$(POD_IP)",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "MINDIE_LOG_TO_FILE": "0",
        "MINDIE_LOG_TO_STDOUT": "1",
    } | dict(engine.environment)


def _volumes(engine: EngineSpec) -> list[Volume]:
    shared_memory = {"emptyDir": {"medium": "Memory", "sizeLimit": engine.shared_memory}}
    volumes = [
        _probe_volume(),
        config_volume(engine.settings, f"{engine.install_path}/conf"),
        Volume("shared-memory", "/dev/shm", shared_memory, read_only=False),
        scratch_volume("tmp", "/tmp"),
    ]
    if engine.weights_claim is not None:
        claim = {"persistentVolumeClaim": {"claimName": engine.weights_claim, "readOnly": True}}
        volumes.append(Volume("weights", WEIGHTS_ROOT, claim))
    return volumes


def _probe_volume() -> Volume:
    return replace(scratch_volume("probe", PROBE_ROOT, "1Mi"), read_only=True)
