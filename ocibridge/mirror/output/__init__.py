# SPDX-License-Identifier: Apache-2.0
"""Output of reports: HTML for people, metrics for machines."""
