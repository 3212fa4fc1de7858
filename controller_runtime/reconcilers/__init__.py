# SPDX-License-Identifier: Apache-2.0
"""The controllers of the Infer Operator: gather what is there, decide purely, apply the differences.

A reconciler is level-based: it derives everything from the objects as they are now, so a missed event or a restart costs
nothing. A second run on an unchanged cluster writes nothing.
"""
