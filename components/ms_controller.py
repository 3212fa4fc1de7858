# SPDX-License-Identifier: Apache-2.0
"""The MS Controller: gives Servers their roles and tells the Coordinator about them. Source: controller manual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, Input, Resource, ResourceOptions
from pulumi_kubernetes.apps.v1 import Deployment

from components.access import service_account
from components.ms_config import (
    CONFIG_ROOT,
    IDENTITY_OF_LINK,
    RANK_TABLE_CONFIG_MAP,
    RANK_TABLE_ROOT,
    STATUS_ROOT,
    controller_files,
    rank_table_file,
)
from components.pods import (
    Container,
    Manifest,
    Volume,
    config_volume,
    pod_template,
    scratch_volume,
    spread_over_hosts,
    tls_probe,
    tls_volume,
)
from components.workload import CONFIG_ANNOTATION, Place, config_map, deployment, disruption_budget
from controller_runtime.api.edges import CONTROLLER_APP
from controller_runtime.api.pki import Identity
from controller_runtime.api.stack import StackConfig

CONFIG_MAP = "mindie-ms-controller-config"
LABELS = {"app": CONTROLLER_APP}


@dataclass(frozen=True)
class MsControllerArgs:
    """`identities`: all of the stack by name; the controller mounts one per link, and the probe's."""

    config: StackConfig
    image: Input[str]
    identities: dict[str, Identity]
    depends_on: Sequence[Resource] = ()


class MsController(ComponentResource):
    """Settings and Deployment of one controller, or of a leader and a standby on different hosts."""

    TOKEN = "ascend-pd:index:MsController"

    deployment: Deployment

    def __init__(self, name: str, args: MsControllerArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the settings first; their hash stands on the pods."""
        namespace = args.config.namespaces.workload
        super().__init__(self.TOKEN, name, {"namespace": namespace, "replicas": args.config.controller.replicas}, opts)
        child = ResourceOptions(parent=self, depends_on=list(args.depends_on))
        place = Place(name, CONTROLLER_APP, namespace, LABELS)
        settings, digest = config_map(place, CONFIG_MAP, controller_files(args.config, args.identities), child)
        account = service_account(name, CONTROLLER_APP, namespace, child)
        if args.config.controller.replicas > 1:
            disruption_budget(place, child)
        template = controller_template(args, digest)
        self.deployment = deployment(place, args.config.controller.replicas, template, child, [settings, account])
        self.register_outputs({})


def controller_template(args: MsControllerArgs, config_hash: str) -> Manifest:
    """Pod template of the controller."""
    controller = args.config.controller
    used = [args.identities[name] for name in (*IDENTITY_OF_LINK.values(), "probe")]
    container = Container(
        name="controller",
        image=args.image,
        command=["ms-controller"],
        args=[f"--status-port={controller.ports.status}"],
        env={
            "MINDIE_MS_CONTROLLER_CONFIG_FILE_PATH": f"{CONFIG_ROOT}/ms_controller.json",
            "GLOBAL_RANK_TABLE_FILE_PATH": rank_table_file(args.config),
            **_clusterd_environment(args.config),
        },
        resources=controller.resources,
        volumes=[
            config_volume(CONFIG_MAP, CONFIG_ROOT),
            _rank_table_volume(args.config),
            scratch_volume("status", STATUS_ROOT),
            *(tls_volume(identity) for identity in used),
        ],
        ports={"http": controller.ports.http, "alarm": controller.ports.alarm, "status": controller.ports.status},
        probes={
            "startup": tls_probe(controller.ports.http, "/v1/startup", period_s=5, failures=100),
            "readiness": tls_probe(controller.ports.http, "/v1/health"),
            "liveness": tls_probe(controller.ports.http, "/v1/health"),
        },
    )
    return pod_template(
        labels=LABELS,
        annotations={CONFIG_ANNOTATION: config_hash},
        containers=[container],
        service_account=CONTROLLER_APP,
        node_selector=controller.node_selector,
        affinity=spread_over_hosts(LABELS),
    )


def _rank_table_volume(config: StackConfig) -> Volume:
    if config.clusterd.mode == "external":
        return scratch_volume("rank-table", RANK_TABLE_ROOT)
    return config_volume(RANK_TABLE_CONFIG_MAP, RANK_TABLE_ROOT, optional=True)


def _clusterd_environment(config: StackConfig) -> dict[str, str]:
    """Variables that switch the stream of rank tables on. Source: controller manual, `cluster_port`."""
    if config.clusterd.mode == "simulated":
        return {}
    return {"MINDX_TASK_ID": config.clusterd.job_id or config.workload.name, "MINDX_SERVER_IP": str(config.clusterd.host)}
