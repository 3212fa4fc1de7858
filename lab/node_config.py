# SPDX-License-Identifier: Apache-2.0
"""Configuration files of a node's daemons, as text.

Paths are the standard ones (/var/lib/kubelet, /run/containerd, ...): each node has its own /var and /run.
"""

from __future__ import annotations

import json
from pathlib import Path

from lab.addresses import SERVICE_DOMAIN, Addresses
from lab.pause_image import PAUSE_IMAGE
from lab.state import Lab
from lab.topology import NodeSpec

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_UNUSED_PLUGINS = (
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.internal.v1.opt",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.internal.v1.tracing",
)


def containerd(network_plugins: Path, network_config: Path) -> str:
    """Container runtime. It may not change OOM scores, since root here can lack CAP_SYS_RESOURCE."""
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = {json.dumps(_UNUSED_PLUGINS)}
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{network_plugins}"
    conf_dir = "{network_config}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    discard_unpacked_layers = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def pod_network(at: Addresses, index: int) -> str:
    """CNI chain: point-to-point links, so that all pod traffic is routed and same-node Service replies pass NAT.

    Allocations live in /run and are lost with the node's power, so addresses never leak.
    """
    addresses = {"type": "host-local", "dataDir": "/run/cni", "subnet": at.node_pod_cidr(index), "routes": [{"dst": "0.0.0.0/0"}]}
    links = {"type": "ptp", "mtu": 1500, "ipMasq": False, "ipam": addresses}
    host_ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": [links, host_ports]})


def kubelet(lab: Lab, node: NodeSpec) -> str:
    """Kubelet. Mounted Secrets and ConfigMaps refresh within `syncFrequency`; images are never collected."""
    at, pki = lab.addresses, lab.certificates
    return f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: Webhook}}
address: {at.node_ip(node.index)}
tlsCertFile: {pki}/{node.name}.crt
tlsPrivateKeyFile: {pki}/{node.name}.key
cgroupDriver: cgroupfs
cgroupRoot: /{at.prefix}/{node.name}
cgroupsPerQOS: true
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://{CONTAINERD_SOCKET}
resolvConf: {lab.node_folder(node)}/resolv.conf
clusterDNS: [{at.dns_service_ip}]
clusterDomain: {SERVICE_DOMAIN}
nodeLeaseDurationSeconds: 20
nodeStatusUpdateFrequency: 5s
syncFrequency: 5s
containerLogMaxSize: 500Mi
containerLogMaxFiles: 3
maxPods: 110
imageGCHighThresholdPercent: 100
evictionHard: {{imagefs.available: 1%, nodefs.available: 1%, memory.available: 50Mi}}
volumePluginDir: /var/lib/kubelet/volumeplugins
"""


def proxy(lab: Lab, node: NodeSpec) -> str:
    """kube-proxy. Zero conntrack settings: it must not change the whole machine's."""
    at = lab.addresses
    return f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {{kubeconfig: {lab.certificates}/proxy.kubeconfig}}
clusterCIDR: {at.pod_cidr}
hostnameOverride: {node.name}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"""


def resolver(at: Addresses) -> str:
    """resolv.conf for pods with the node's DNS policy."""
    return f"nameserver {at.dns_service_ip}\n"
