# SPDX-License-Identifier: Apache-2.0
"""Entry points: parse, wire, run. Imports nothing here, so that `probe` stays small."""
