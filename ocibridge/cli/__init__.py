# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command, which parses, calls a verb and prints. Nothing heavy is imported up front."""
