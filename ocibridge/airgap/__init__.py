# SPDX-License-Identifier: Apache-2.0
"""Air-gapped transfer: pack many references into one archive, and restore them on the other side."""
