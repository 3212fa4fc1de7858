# SPDX-License-Identifier: Apache-2.0
"""Talking to ClusterD: rank tables and faults over gRPC."""
