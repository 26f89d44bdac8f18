# SPDX-License-Identifier: Apache-2.0
"""The operations, one module each; the command line and the library call the same functions."""
