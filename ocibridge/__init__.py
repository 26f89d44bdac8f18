# SPDX-License-Identifier: Apache-2.0
"""The lossless two-way bridge between model archives and OCI registries."""
