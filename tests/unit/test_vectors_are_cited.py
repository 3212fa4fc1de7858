# SPDX-License-Identifier: Apache-2.0
"""Every numbered vector of the Infer Operator's behaviour has a test that cites it, so that none is lost when tests move.

A test cites a vector in its name (`test_v12_...`), in an id (`id="V12-..."`) or in its docstring (`Vectors 12 and 13`).
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
OPERATOR_TESTS = (
    "unit/controller_runtime/api",
    "unit/controller_runtime/cli",
    "unit/controller_runtime/reconcilers",
    "cluster/operator",
)
VECTORS = range(1, 71)
CITATIONS = (r"def test((?:_v\d+)+)_", r'\bid="(V\d+)\b', r"\bVectors? (\d+(?:(?:, | and )\d+)*)")


def test_every_vector_is_cited_and_no_other_number() -> None:
    texts = [path.read_text() for folder in OPERATOR_TESTS for path in (TESTS / folder).rglob("test_*.py")]

    citations = [found for text in texts for pattern in CITATIONS for found in re.findall(pattern, text)]
    cited = {int(number) for citation in citations for number in re.findall(r"\d+", citation)}

    assert cited == set(VECTORS)
