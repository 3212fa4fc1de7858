# SPDX-License-Identifier: Apache-2.0
"""A thin asyncio client of the Kubernetes API and the machinery of controllers on top of it.

Read in this order: `kind`, `config`, `client` talk to the API server; `reflector`, `store`, `informer` keep a local copy
of what is there; `workqueue`, `controller` turn its changes into reconciles; `manager` runs all of it, behind a `lease`
when there are replicas; `events` tells the user.
"""
