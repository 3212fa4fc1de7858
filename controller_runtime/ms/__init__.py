# SPDX-License-Identifier: Apache-2.0
"""The MS Controller: gives Servers their roles, watches them, and tells Coordinators whom to use."""
