# SPDX-License-Identifier: Apache-2.0
"""One package for each format, found through the table in `registry`, and what they share."""
