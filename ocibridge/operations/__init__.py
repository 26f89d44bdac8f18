# SPDX-License-Identifier: Apache-2.0
"""What ocibridge does, one verb a file; the command line and the library call the same functions."""
