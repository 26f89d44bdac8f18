# SPDX-License-Identifier: Apache-2.0
"""Inventory of the other side of an air gap, a document for both sides."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..errors import DestinationError, FormatError, LimitError, OcibridgeError, reading
from ..io.atomic import check_place, write_file
from ..oci import Digest, Document, parse_document
from ..paths import show
from ..report import generator, schema_named
from ..settings import MiB
from .names import parse_name

_LARGEST = 256 * MiB
Size = Annotated[int, Field(ge=0)]


class ReferenceInventory(Document):
    """Manifests and blobs of one reference.

    Attributes:
        digest: The manifest or index that the reference points to.
        manifests: Size in bytes of all its manifests, including referrers, by digest.
        blobs: Size in bytes of all their blobs, by digest.
    """

    digest: Digest = Field(description="the manifest or index that the reference points to")
    manifests: dict[Digest, Size] = Field(description="all its manifests, including referrers: size in bytes by digest")
    blobs: dict[Digest, Size] = Field(description="all their blobs: size in bytes by digest")

    def covers(self, other: ReferenceInventory) -> bool:
        """Return whether this has every manifest of `other`."""
        return self.digest == other.digest and self.manifests.keys() >= other.manifests.keys()


class Inventory(Document):
    """Inventory of the other side of an air gap.

    Attributes:
        version: Version of the document.
        references: Entries by `HOST/REPOSITORY:TAG` as the sending side names it.
    """

    schema_id: str = schema_named("airgap-inventory")
    generator: str = generator()
    version: Literal[1] = 1
    references: dict[str, ReferenceInventory] = Field(
        {}, description="by HOST/REPOSITORY:TAG, as the sending side names it"
    )

    @staticmethod
    def read(path: Path) -> Inventory:
        """Read an inventory that `write` wrote.

        Raises:
            SourceError: it cannot be read.
            FormatError: it is no inventory.
            LimitError: it is too large.
        """
        with reading(path), open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise LimitError(f"{path} has more than {_LARGEST} bytes", hint="it is no inventory")
        inventory = parse_document(Inventory, data, str(path), _LARGEST)
        for name in inventory.references:
            if parse_name(name) is None:
                raise FormatError(f"{path}: {show(name)} is no reference", hint="it is damaged, or no inventory")
        return inventory

    @staticmethod
    def check_target(path: Path, archive: Path) -> None:
        """Find out before long work whether an inventory can be written to `path`, where only another one may be.

        Raises:
            DestinationError: it cannot, there is something else, or it is the path of the archive.
        """
        if os.path.realpath(path) == os.path.realpath(archive):
            raise DestinationError(
                f"cannot write {path}: it is the archive", hint="choose another name for the inventory"
            )
        check_place(path)
        if not os.path.lexists(path):
            return
        with suppress(OcibridgeError):
            if path.is_file():
                Inventory.read(path)
                return
        raise DestinationError(f"cannot write {path}: it exists, and is no inventory", hint="choose another name")

    def joined(self, references: Mapping[str, ReferenceInventory]) -> Inventory:
        """Return this inventory with added or replaced references."""
        merged = {**self.references, **references}
        return Inventory(references={name: merged[name] for name in sorted(merged)})

    def write(self, path: Path) -> None:
        """Write the inventory to an atomic file.

        Raises:
            DestinationError: it cannot be written.
        """
        text = json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True)
        write_file(path, (text + "\n").encode())

    def homes(self, digests: Collection[str]) -> dict[str, list[str]]:
        """Return the repositories that have each blob, sorted; blobs that none has are left out."""
        found: dict[str, set[str]] = {}
        for name, held in self.references.items():
            parsed = parse_name(name)
            for digest in held.blobs.keys() & digests if parsed else ():
                found.setdefault(digest, set()).add(parsed.repository if parsed else "")
        return {digest: sorted(names) for digest, names in found.items()}
