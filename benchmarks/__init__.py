# SPDX-License-Identifier: Apache-2.0
"""Speed and memory, compared with those of other tools in one run."""
