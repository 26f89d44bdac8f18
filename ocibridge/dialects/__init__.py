# SPDX-License-Identifier: Apache-2.0
"""The vocabularies of a model's manifest. No bytes are moved here."""
