# SPDX-License-Identifier: Apache-2.0
"""All traffic of a stack, edge by edge. Source: deployment manual, ports; operator RFC, 11.3."""

from __future__ import annotations

from controller_runtime.api.network import Edge, PodsOf
from controller_runtime.api.ports import CLUSTERD, ETCD_CLIENT, ETCD_METRICS, ETCD_PEER, OPERATOR_METRICS
from controller_runtime.api.stack import StackConfig

APP = "app"
ETCD_APP = "etcd"
ETCD_AUTH_APP = "etcd-auth"
OPERATOR_APP = "infer-operator"
CLUSTERD_APP = "clusterd"
CONTROLLER_APP = "mindie-ms-controller"
COORDINATOR_APP = "mindie-ms-coordinator"
SERVER_APP = "mindie-server"
PROOF_APP = "pd-proof"


def stack_edges(config: StackConfig) -> tuple[Edge, ...]:
    """List every allowed edge; `api.network.policies` denies the rest."""
    return (*_platform_edges(config), *_etcd_edges(config), *_control_edges(config), *_request_edges(config), *_metrics_edges(config))


def _platform_edges(config: StackConfig) -> list[Edge]:
    namespaces = (config.namespaces.operator, config.namespaces.workload, config.namespaces.etcd)
    dns = [
        Edge(source=PodsOf(namespace=namespace), target=peer, ports=(peer.port,), protocols=("UDP", "TCP"))
        for namespace in namespaces
        for peer in config.network.dns
    ]
    api_users = [_operator(config), *([_simulated_clusterd(config)] if config.clusterd.mode == "simulated" else [])]
    return dns + [Edge(source=user, target=peer, ports=(peer.port,)) for user in api_users for peer in config.network.api_server]


def _etcd_edges(config: StackConfig) -> list[Edge]:
    members = _pods(config.namespaces.etcd, ETCD_APP)
    clients = [_pods(config.namespaces.etcd, ETCD_AUTH_APP), _controller(config), _coordinator(config)]
    return [
        Edge(source=members, target=members, ports=(ETCD_CLIENT, ETCD_PEER)),
        *(Edge(source=client, target=members, ports=(ETCD_CLIENT,)) for client in clients),
    ]


def _control_edges(config: StackConfig) -> list[Edge]:
    controller, coordinator, server = _controller(config), _coordinator(config), _server(config)
    ports, server_ports, controller_ports = config.coordinator.ports, config.workload.ports, config.controller.ports
    clusterd, clusterd_port = (
        config.clusterd.peer or _simulated_clusterd(config),
        config.clusterd.peer.port if config.clusterd.peer else CLUSTERD,
    )
    return [
        Edge(source=controller, target=coordinator, ports=(ports.management, ports.external)),
        Edge(source=controller, target=server, ports=(server_ports.management, server_ports.metrics, server_ports.node_manager)),
        Edge(source=controller, target=clusterd, ports=(clusterd_port,)),
        Edge(source=coordinator, target=controller, ports=(controller_ports.alarm,)),
        Edge(source=server, target=controller, ports=(controller_ports.alarm,)),
    ]


def _request_edges(config: StackConfig) -> list[Edge]:
    coordinator, server, ports = _coordinator(config), _server(config), config.workload.ports
    predict = config.coordinator.ports.predict
    return [
        Edge(source=_pods(config.namespaces.workload, PROOF_APP), target=coordinator, ports=(predict,)),
        *(Edge(source=client, target=coordinator, ports=(predict,)) for client in config.network.clients),
        Edge(source=coordinator, target=server, ports=(ports.data, ports.management)),
        Edge(source=server, target=server, ports=(ports.transfer,)),
    ]


def _metrics_edges(config: StackConfig) -> list[Edge]:
    targets = (
        (_coordinator(config), config.coordinator.ports.external),
        (_controller(config), config.controller.ports.status),
        (_server(config), config.workload.ports.metrics),
        (_operator(config), OPERATOR_METRICS),
        (_pods(config.namespaces.etcd, ETCD_APP), ETCD_METRICS),
    )
    return [Edge(source=reader, target=target, ports=(port,)) for reader in config.network.monitoring for target, port in targets]


def _pods(namespace: str, app: str) -> PodsOf:
    return PodsOf(namespace=namespace, labels={APP: app})


def _operator(config: StackConfig) -> PodsOf:
    return _pods(config.namespaces.operator, OPERATOR_APP)


def _simulated_clusterd(config: StackConfig) -> PodsOf:
    return _pods(config.namespaces.operator, CLUSTERD_APP)


def _controller(config: StackConfig) -> PodsOf:
    return _pods(config.namespaces.workload, CONTROLLER_APP)


def _coordinator(config: StackConfig) -> PodsOf:
    return _pods(config.namespaces.workload, COORDINATOR_APP)


def _server(config: StackConfig) -> PodsOf:
    return _pods(config.namespaces.workload, SERVER_APP)
