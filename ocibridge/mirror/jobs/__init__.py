# SPDX-License-Identifier: Apache-2.0
"""What a job file says: its text, its words, and what they mean."""
