# SPDX-License-Identifier: Apache-2.0
"""The one error of the lab: a sentence for the user, printed without a traceback.

A message answers what, where, how to fix, in that order.
"""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot do what was asked. The message is shown to the user as it is."""
