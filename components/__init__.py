# SPDX-License-Identifier: Apache-2.0
"""Component resources: one per file, its arguments above it. They hold wiring, no rules and no I/O."""
