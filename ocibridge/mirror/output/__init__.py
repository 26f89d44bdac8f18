# SPDX-License-Identifier: Apache-2.0
"""What a report is turned into: a page for people, metrics for machines."""
