# SPDX-License-Identifier: Apache-2.0
"""Names inside a carton (seed 000), and in what is recorded of one."""

from __future__ import annotations

MANIFEST = "MANIFEST"
LINKS = "LINKS"
UNLISTED = (MANIFEST, LINKS)
"""The two files that have no row."""
CARTON_TOML = "carton.toml"
INDEX_TOML = "tensor_data/index.toml"

EXACT = "carton.exact"
"""Key of `Model.origin`: the path of the one file that is the whole carton."""
