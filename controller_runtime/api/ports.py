# SPDX-License-Identifier: Apache-2.0
"""Every port of the stack, once. Source: controller manual and deployment manual, port tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller_runtime.api.base import Model

UserPort = Annotated[int, Field(ge=1024, le=65535)]

ETCD_CLIENT = 2379
ETCD_PEER = 2380
ETCD_METRICS = 8080
OPERATOR_HEALTH = 11254
OPERATOR_METRICS = 8443
CLUSTERD = 8899
CLUSTERD_HEALTH = 8900
"""Of the simulated ClusterD."""


class ControllerPorts(Model):
    """Listeners of the controller."""

    http: UserPort = 1026
    """`/v1/startup` and `/v1/health`."""
    alarm: UserPort = 1027
    status: UserPort = 1029
    """`/v1/readiness` and `/metrics`."""


class CoordinatorPorts(Model):
    """Listeners of the coordinator."""

    predict: UserPort = 1025
    """The inference entry."""
    management: UserPort = 1026
    external: UserPort = 1028
    """`/metrics` for users."""
    status: UserPort = 1029
    """Probes."""


class ServerPorts(Model):
    """Listeners of a Server pod."""

    data: UserPort = 1025
    management: UserPort = 1026
    metrics: UserPort = 1027
    node_manager: UserPort = 1028
    transfer: UserPort = 1030
    """From a prefill to a decode Server: the KV cache of the simulated engine; interCommPort of a real one, whose cache takes RoCE."""
    admin: UserPort = 1031
    """Fault injection (simulated engine only)."""
