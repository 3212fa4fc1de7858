# SPDX-License-Identifier: Apache-2.0
"""The policy pack: rules of `controller_runtime.rules` made policies of the Pulumi engine."""
