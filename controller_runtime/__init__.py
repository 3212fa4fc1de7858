# SPDX-License-Identifier: Apache-2.0
"""The controller runtime of ascend-pd: operator, MS Controller, rules and their foundation.

Importing this package never imports pulumi. Layers and their order: docs/explanation/layers.md.
"""
