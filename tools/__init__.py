# SPDX-License-Identifier: Apache-2.0
"""Builds, finds and checks everything the project needs that pip cannot install.

Runs on the system's Python before any virtual environment exists, so it uses the standard library
only. `python -m tools --help` lists the commands.
"""

OLDEST_PYTHON = (3, 11)
