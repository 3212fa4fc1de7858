# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster of real nodes on one Linux machine, for development and tests.

Every node is a set of namespaces with its own pid 1, containerd, kubelet, kube-proxy and kube-router, so a
"power loss" is one `kill -9` and leaves nothing behind. Standard library only: the lab must run before
anything else is installed. Use it by `python -m lab --help`.
"""
