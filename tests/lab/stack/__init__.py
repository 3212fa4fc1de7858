# SPDX-License-Identifier: Apache-2.0
"""A package of its own, so that the stack is gone before other tests use the lab."""
