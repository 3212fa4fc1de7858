# SPDX-License-Identifier: Apache-2.0
"""StackConfig: the one typed model of a stack. Written by a user under the key `ascend-pd:stack`.

Ranges stand at the fields; what spans fields stands in `stack_rules.py`, which also reads and reports.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from controller_runtime.api.base import Model
from controller_runtime.api.engine import EngineSpec
from controller_runtime.api.network import NetworkPeer, NetworkSpec
from controller_runtime.api.pki import PkiNames, PkiSpec
from controller_runtime.api.ports import ControllerPorts, CoordinatorPorts, ServerPorts
from controller_runtime.api.units import GIB, DnsName, LabelValue, Name, Namespace, Quantity

Rate = Annotated[int, Field(ge=0, le=15)]
NPU_RESOURCE = "huawei.com/Ascend910"


class Resources(Model):
    """Requests of one container. The memory limit equals the request unless given."""

    cpu: Quantity = "100m"
    memory: Quantity = "128Mi"
    memory_limit: Quantity | None = None


class ClusterSpec(Model):
    """Which cluster, seen from the machine that runs `pulumi`."""

    context: str | None = None
    """Context of the kubeconfig. None: the current one."""
    identifier: str = "ascend-pd"
    """Names the cluster for the provider, so that a renewed kubeconfig replaces nothing."""
    domain: DnsName = "cluster.local"


class NamespacesSpec(Model):
    """Where the parts live. The three differ."""

    operator: Namespace = "mindx-dl"
    workload: Namespace = "mindie"
    etcd: Namespace = "ascend-pd-etcd"


class ImageSpec(Model):
    """One image of a registry: `repository:tag`, better with `digest`."""

    tag: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None


class ImagesSpec(Model):
    """Where images come from. `local`: built by `make images`, read from build/images.json."""

    source: Literal["local", "registry"] = "local"
    registry: str | None = None
    """Prefix of every image, for example `registry.example.internal/ascend-pd`."""
    runtime: ImageSpec | None = None
    simulator: ImageSpec | None = None
    """Not needed with a real engine."""
    etcd: ImageSpec | None = None


class EtcdSpec(Model):
    """The etcd cluster that holds the controllers' lock and state. Source: controller manual, etcd section."""

    members: Annotated[int, Field(ge=1, le=7)] = 3
    """Odd. One member survives no loss and is for laptops. Fixed once the cluster exists: new members would not be let in."""
    quota_bytes: PositiveInt = 2 * GIB
    volume_bytes: PositiveInt = 5 * GIB
    """Holds twice the quota plus 1 GiB: log, snapshot, defragmentation. Fixed, with its class, once the volumes exist."""
    storage_class: str | None = None
    """None: the default class of the cluster."""
    compaction_minutes: Annotated[int, Field(ge=1, le=1440)] = 5
    resources: Resources = Resources(cpu="500m", memory="512Mi")
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)


class OperatorSpec(Model):
    """The Infer Operator."""

    install_crds: bool = True
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    log_level: Annotated[int, Field(ge=-1, le=3)] = 0
    resources: Resources = Resources(memory="256Mi")
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)


class ControllerSpec(Model):
    """The MS Controller. Two replicas elect a leader on etcd."""

    replicas: Annotated[int, Field(ge=1, le=2)] = 1
    ports: ControllerPorts = ControllerPorts()
    cluster_synchronization_seconds: Annotated[int, Field(ge=1, le=65535)] = 1
    default_p_rate: Rate = 0
    default_d_rate: Rate = 0
    lease_ttl_s: Annotated[int, Field(ge=2, le=120)] = 20
    lease_renew_s: Annotated[int, Field(ge=1, le=60)] = 10
    resources: Resources = Resources(memory="256Mi")
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)


class CoordinatorSpec(Model):
    """The Coordinator: takes requests, picks a prefill and a decode Server."""

    replicas: Annotated[int, Field(ge=1, le=2)] = 1
    ports: CoordinatorPorts = CoordinatorPorts()
    node_port: Annotated[int, Field(ge=30000, le=32767)] | None = None
    """None: reachable inside the cluster only."""
    max_requests: Annotated[int, Field(ge=1, le=90000)] = 10000
    body_limit_mib: Annotated[int, Field(ge=1, le=20)] = 1
    resources: Resources = Resources(cpu="16", memory="12Gi")
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)


class ClusterdSpec(Model):
    """Where rank tables come from. `simulated`: our process; `external`: the site's ClusterD."""

    mode: Literal["simulated", "external"] = "simulated"
    host: DnsName | None = None
    """External: name or address the controller dials on port 8899. Its certificate carries a name `clusterd.*`."""
    job_id: Name | None = None
    """External: the job whose rank tables ClusterD sends. None: the name of the workload."""
    peer: NetworkPeer | None = None
    """External: where that traffic goes, for the network policy."""
    resources: Resources = Resources()
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)


class RoleSpec(Model):
    """One role of the workload: how many instances of how many pods with how many NPUs."""

    instances: Annotated[int, Field(ge=0, le=96)] | None = None
    """None in both roles: the decision fixes the split of `total_instances`."""
    pods_per_instance: Annotated[int, Field(ge=1, le=20)] = 1
    npus_per_pod: Annotated[int, Field(ge=1, le=16)] = 8
    world_size: PositiveInt | None = None
    """NPUs one process serves; equals npus_per_pod when Servers are not distributed. None: that."""
    pool: Name
    """Name of the node pool its pods run in."""
    resources: Resources = Resources(cpu="16", memory="64Gi")


class PoolSpec(Model):
    """Nodes of one kind. Existing nodes are selected by label and checked, not created."""

    hardware_type: Literal["800I A2(32G)", "800I A2(64G)"]
    node_selector: dict[str, LabelValue] = Field(min_length=1)
    npus_per_node: Annotated[int, Field(ge=1, le=16)] = 8
    nodes: PositiveInt = 1
    """How many nodes carry the labels."""
    node_names: tuple[DnsName, ...] = ()
    """Nodes to label and to check. Empty: the site labels them, and nothing is checked before pods are placed."""


class DecisionSpec(Model):
    """Inputs of the P:D decision. Lengths in tokens, objectives in milliseconds. Source: controller manual, `digs_*`."""

    input_length_tokens: Annotated[int, Field(ge=1, le=65535)] = 3000
    output_length_tokens: Annotated[int, Field(ge=1, le=65535)] = 200
    prefill_slo_ms: Annotated[int, Field(ge=1, le=65535)] = 1000
    decode_slo_ms: Annotated[int, Field(ge=1, le=65535)] = 50
    pipeline_parallel: Annotated[int, Field(ge=1, le=65535)] = 1
    model: str = "llama2-70B"
    machine: str = "800I-A2"


class WorkloadSpec(Model):
    """The InferServiceSet: one set of prefill and decode instances per service."""

    name: Name = "pd"
    services: Annotated[int, Field(ge=1, le=64)] = 1
    heterogeneous: bool = False
    """Prefill and decode run on different hardware; the hardware type of a node is the role of its Servers."""
    model_name: str = "llama2-70B"
    total_instances: Annotated[int, Field(ge=2, le=96)] | None = None
    prefill: RoleSpec
    decode: RoleSpec
    engine: EngineSpec | None = None
    """None: the simulator."""
    ports: ServerPorts = ServerPorts()
    time_scale: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Simulated engine only: 0.1 makes it ten times faster than the modelled hardware."""
    ready_timeout_s: Annotated[int, Field(ge=10, le=7200)] = 1800


class QuotaSpec(Model):
    """ResourceQuota of one namespace."""

    pods: PositiveInt = 100
    requests_cpu: Quantity = "2000"
    requests_memory: Quantity = "8Ti"


class StackConfig(Model):
    """A whole stack."""

    cluster: ClusterSpec = ClusterSpec()
    namespaces: NamespacesSpec = NamespacesSpec()
    quota: QuotaSpec = QuotaSpec()
    images: ImagesSpec = ImagesSpec()
    network: NetworkSpec
    pki: PkiSpec = PkiSpec()
    etcd: EtcdSpec = EtcdSpec()
    operator: OperatorSpec = OperatorSpec()
    clusterd: ClusterdSpec = ClusterdSpec()
    controller: ControllerSpec = ControllerSpec()
    coordinator: CoordinatorSpec = CoordinatorSpec()
    pools: dict[str, PoolSpec]
    workload: WorkloadSpec
    decision: DecisionSpec = DecisionSpec()
    proof_timeout_s: Annotated[NonNegativeInt, Field(le=7200)] = 600
    """How long the proof request may take until the stack answers. 0: no proof."""

    def pki_names(self) -> PkiNames:
        """Collect the names that certificates are made of."""
        return PkiNames(
            operator_namespace=self.namespaces.operator,
            workload_namespace=self.namespaces.workload,
            etcd_namespace=self.namespaces.etcd,
            cluster_domain=self.cluster.domain,
            etcd_service=ETCD_SERVICE,
            etcd_members=self.etcd.members,
            coordinator_service=COORDINATOR_SERVICE,
            clusterd_service=CLUSTERD_SERVICE,
        )


ETCD_SERVICE = "etcd"
COORDINATOR_SERVICE = "mindie-ms-coordinator-infer"
"""Must not be `mindie-ms-coordinator`: service links would inject a port setting the controller reads. Source: deployment manual."""
CLUSTERD_SERVICE = "clusterd"
