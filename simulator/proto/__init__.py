# SPDX-License-Identifier: Apache-2.0
"""Generated protocol code of what the simulator serves; `make proto` writes it anew."""
