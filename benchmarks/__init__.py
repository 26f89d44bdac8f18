# SPDX-License-Identifier: Apache-2.0
"""Speed and memory beside curl, skopeo and the stock oras package, in one run."""
