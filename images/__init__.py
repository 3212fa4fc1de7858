# SPDX-License-Identifier: Apache-2.0
"""Images of the stack, built without a daemon and without pulling anything: recipes and the builder."""
