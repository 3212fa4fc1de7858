# SPDX-License-Identifier: Apache-2.0
"""A small asyncio client of etcd 3.6: mutual TLS, failover, leases, watches, a leader lock with fencing, users and roles."""
