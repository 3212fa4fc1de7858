# SPDX-License-Identifier: Apache-2.0
"""Progressive rollouts: which instances are brought to a changed template now, which role's turn it is, and when an instance drains.

`decision` chooses for one role, `hand_over` orders the roles of a service, `plan` runs both ahead of time on paper.
"""
