# SPDX-License-Identifier: Apache-2.0
"""Job files: YAML, keys, and their meaning."""
