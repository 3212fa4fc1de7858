# SPDX-License-Identifier: Apache-2.0
"""Start the policy pack. The engine runs this folder; the checkout it stands in is put on the path first."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pulumi_policy import EnforcementLevel, PolicyPack

from policies.pack import policies

PolicyPack("ascend-pd", policies(), enforcement_level=EnforcementLevel.MANDATORY)
