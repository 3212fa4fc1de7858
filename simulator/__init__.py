# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for hardware and closed software: real processes on real sockets with real mutual TLS.

Only what cannot run here is simulated: NPUs, the MindIE engine, its Coordinator and ClusterD. A
request really crosses all links: the text of an answer is computed half by a prefill Server and half
by a decode Server, so it cannot be right unless both worked and reached each other.
"""
