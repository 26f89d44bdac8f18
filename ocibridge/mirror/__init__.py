# SPDX-License-Identifier: Apache-2.0
"""Many copies: the job file, the plan, the run, and its report."""
