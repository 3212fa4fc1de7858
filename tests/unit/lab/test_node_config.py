# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import tomllib
from pathlib import Path

import yaml

from lab import node_config
from lab.pause_image import PAUSE_IMAGE
from lab.state import Lab


def test_the_container_runtime_takes_the_pause_image_and_the_nodes_own_network_config() -> None:
    config = tomllib.loads(node_config.containerd(Path("/usr/lib/cni"), Path("/state/node1/cni")))

    runtime = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert runtime["sandbox_image"] == PAUSE_IMAGE
    assert runtime["cni"] == {"bin_dir": "/usr/lib/cni", "conf_dir": "/state/node1/cni"}
    assert runtime["restrict_oom_score_adj"] is True
    assert config["grpc"]["address"] == node_config.CONTAINERD_SOCKET


def test_pods_get_addresses_of_their_node_that_are_forgotten_with_its_power(lab: Lab) -> None:
    first, second = json.loads(node_config.pod_network(lab.addresses, 2))["plugins"]

    assert first["type"] == "ptp"
    assert first["ipMasq"] is False
    assert first["ipam"]["subnet"] == "10.132.2.0/24"
    assert first["ipam"]["dataDir"].startswith("/run/")
    assert second["type"] == "portmap"


def test_the_kubelet_refreshes_mounted_secrets_fast_and_keeps_long_logs_and_all_images(lab: Lab) -> None:
    config = yaml.safe_load(node_config.kubelet(lab, lab.nodes[1]))

    expected = {
        "syncFrequency": "5s",
        "containerLogMaxSize": "500Mi",
        "containerLogMaxFiles": 3,
        "maxPods": 110,
        "imageGCHighThresholdPercent": 100,
        "cgroupRoot": "/apd4/node2",
        "clusterDNS": ["10.96.4.10"],
        "address": "10.99.4.12",
    }
    assert {key: config[key] for key in expected} == expected
    assert config["authentication"]["anonymous"] == {"enabled": False}


def test_the_proxy_uses_nftables_and_leaves_the_machines_connection_tracking_alone(lab: Lab) -> None:
    config = yaml.safe_load(node_config.proxy(lab, lab.nodes[0]))

    assert config["mode"] == "nftables"
    assert config["clusterCIDR"] == "10.132.0.0/16"
    assert config["conntrack"] == {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}


def test_pods_resolve_through_the_dns_service(lab: Lab) -> None:
    assert node_config.resolver(lab.addresses) == "nameserver 10.96.4.10\n"
