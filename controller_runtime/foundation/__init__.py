# SPDX-License-Identifier: Apache-2.0
"""Generic mechanics: logs, metrics, time, files, process life, mutual TLS, HTTP. Knows no Ascend or Kubernetes concept.

Import the module you need; this file imports none of them, so a small tool stays small.
"""
