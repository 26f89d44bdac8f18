# SPDX-License-Identifier: Apache-2.0
"""Bytes and files: sources, readers, hashing, atomic files, positioned writes, journals and locks."""
