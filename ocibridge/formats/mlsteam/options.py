# SPDX-License-Identifier: Apache-2.0
"""The options of MLSteam archives."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...options import option
from ..options import WriteOptions

ZIP_METHODS = ("stored", "deflate")


@dataclass(frozen=True, kw_only=True)
class MlsteamWriteOptions(WriteOptions):
    """Options for writing an MLSteam archive."""

    zip_method: str = option(
        "stored", choices=ZIP_METHODS, help="how the members of a new archive are compressed (default: %(default)s)"
    )
    hooks: str | os.PathLike[str] | None = option(
        None,
        metavar="FOLDER",
        help="folder with the hooks (*.py) of a new MLSteam archive",
        group="making an MLSteam archive of a model that was none",
    )
