# SPDX-License-Identifier: Apache-2.0
"""Rescheduling: an instance of which a pod is faulty or lost is made anew, exactly once.

Everything is told apart by uid: a fault concerns one workload object, and that object can be deleted only once. So a fault
seen twice, after a restart or by a new leader, is handled once, and pods of an instance that is gone concern nobody.
As the reference operator does it, without its rebuild loops.
"""
