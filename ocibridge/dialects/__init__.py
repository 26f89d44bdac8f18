# SPDX-License-Identifier: Apache-2.0
"""The dialects of a model's manifest, each a module that recognises, reads and writes it. No bytes are moved here."""
