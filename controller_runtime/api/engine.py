# SPDX-License-Identifier: Apache-2.0
"""EngineSpec: a real MindIE image in place of the simulator. Source: deployment manual, manifests and boot sequence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from controller_runtime.api.base import Model
from controller_runtime.api.units import Name, Quantity

ImageReference = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.:/_-]*(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$")]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_.-]+)+$")]
Command = Annotated[tuple[str, ...], Field(min_length=1)]


class EngineSpec(Model):
    """What Servers and Coordinator run. Commands are relative to `install_path`, and no shell reads them."""

    image: ImageReference
    """Full reference with tag, digest or both. It has a python3, which runs the probe."""
    install_path: AbsolutePath = "/usr/local/Ascend/mindie/latest/mindie-service"
    """Folder of `bin` and `lib`; becomes MIES_INSTALL_PATH."""
    server_command: Command = ("bin/mindieservice_daemon",)
    node_manager_command: tuple[str, ...] = ()
    """Empty: no node manager beside the Server, as for Servers within one pod."""
    coordinator_command: Command = ("bin/ms_coordinator", "$(POD_IP)", "$(POD_IP)")
    environment: dict[EnvironmentName, str] = Field(default_factory=dict)
    """Added to what the manual sets; wins over it. No secrets: it stands readable in the pods."""
    settings: Name
    """The site's ConfigMap in the workload namespace: config.json, ms_coordinator.json, node_manager.json."""
    weights_claim: Name | None = None
    """The site's PersistentVolumeClaim with the model, mounted read-only at /mnt/weights."""
    shared_memory: Quantity = "4Gi"
    """Size of /dev/shm; counts towards the memory of a Server."""
