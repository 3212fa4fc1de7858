# SPDX-License-Identifier: Apache-2.0
"""The simulated Coordinator: takes users' requests, picks a linked pair of Servers, relays."""

from simulator.coordinator.cli import main

__all__ = ["main"]
