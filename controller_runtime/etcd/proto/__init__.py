# SPDX-License-Identifier: Apache-2.0
"""Generated from `etcd.proto` by `make proto`; do not edit."""
