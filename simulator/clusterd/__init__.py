# SPDX-License-Identifier: Apache-2.0
"""The simulated ClusterD: turns pods and nodes into rank tables and fault messages."""

from simulator.clusterd.cli import main

__all__ = ["main"]
