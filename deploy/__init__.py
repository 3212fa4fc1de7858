# SPDX-License-Identifier: Apache-2.0
"""Manifests for `kubectl apply`, and the command that renders them."""
