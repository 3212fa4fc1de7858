# SPDX-License-Identifier: Apache-2.0
"""The one error of this package.

It has its own tree because the package runs before the project's dependencies are installed.
"""

from __future__ import annotations


class ToolsError(Exception):
    """Something a person must put right. The text says what, where and how to fix it."""
