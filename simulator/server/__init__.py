# SPDX-License-Identifier: Apache-2.0
"""The simulated MindIE Server: one engine that prefills or decodes, its ports, its links."""

from simulator.server.cli import main

__all__ = ["main"]
