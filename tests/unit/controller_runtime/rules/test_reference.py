# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from controller_runtime.rules.reference import page

CHECKOUT = Path(__file__).resolve().parents[4]


def test_the_reference_page_is_that_of_the_rules() -> None:
    assert (CHECKOUT / "docs/reference/rules.md").read_text() == page()
