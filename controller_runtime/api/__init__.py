# SPDX-License-Identifier: Apache-2.0
"""The shared types: models, enums, keys, defaults and ranges. No I/O, nothing but pydantic."""
