# SPDX-License-Identifier: Apache-2.0
"""ClusterD's two services. `*_pb2.py` and `*_grpc.py` are generated from the `.proto` files beside them."""
