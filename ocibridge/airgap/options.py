# SPDX-License-Identifier: Apache-2.0
"""The options of `pack` and `unpack`; `ocibridge.options` says how they are used."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..operations.options import BelongingOptions, ExistingOptions, TransferOptions
from ..options import option, parse_size

GROUP = "many references in one archive, for the other side of an air gap"


@dataclass(frozen=True, kw_only=True)
class InventoryOptions(TransferOptions):
    """Options of both `pack` and `unpack`."""

    inventory: str | os.PathLike[str] | None = option(
        None, help="write an inventory of what the other side has afterwards", metavar="FILE", group=GROUP
    )


@dataclass(frozen=True, kw_only=True)
class PackOptions(ExistingOptions, BelongingOptions, InventoryOptions):
    """Options of `pack`; `volume_size` is in bytes, and None writes one file."""

    since: str | os.PathLike[str] | None = option(
        None, help="leave out what the other side has according to this inventory", metavar="INVENTORY", group=GROUP
    )
    volume_size: int | None = option(
        None, help="split the archive: 4GiB, 700MiB, 25GB", metavar="SIZE", parse=parse_size, group=GROUP
    )


@dataclass(frozen=True, kw_only=True)
class UnpackOptions(InventoryOptions):
    """Options of `unpack`."""

    strip: str = option("", help="leading parts of repositories to leave out", metavar="PREFIX", group=GROUP)
    full: bool = option(False, help="look for every blob, even below what the target has, and repair what is broken")
