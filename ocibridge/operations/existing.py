# SPDX-License-Identifier: Apache-2.0
"""Facts about what exists at a target of a pull or a conversion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..formats.base import Sink
from ..formats.registry import address_of
from ..io.existing import Existing
from ..io.marker import file_record
from ..io.merge import Changes
from ..oci import ArchiveReference, LayoutReference, Reference
from ..stores.volumes import existing
from .options import TargetOptions
from .reports import FileChanges


def changes_of(sink: Sink, existed: bool) -> FileChanges:
    """Count the new files of a target; a single one is added, or updated where there was one."""
    found = sink.changes or (Changes(updated=1) if existed else Changes(added=1))
    return FileChanges(**found._asdict())


def places_of(reference: Reference) -> tuple[Path, ...]:
    """Real paths of the store of a reference: a layout, or an archive with its volumes."""
    if not isinstance(reference, LayoutReference):
        return ()
    files = [reference.path]
    if isinstance(reference, ArchiveReference):
        # The path may have the name of a repository in the archive behind it, after a colon.
        parts = str(reference.path).split(":")
        files = [each for end in range(len(parts)) for each in existing(Path(":".join(parts[: end + 1])), True)]
    return tuple(Path(os.path.realpath(each)) for each in files)


def kept_archive(dest: str | os.PathLike[str], key: str, options: TargetOptions) -> dict[str, Any] | None:
    """The record of an archive that is at the target, unchanged, if it is the one that would be written."""
    if options.existing is not Existing.KEEP or (isinstance(dest, str) and address_of(dest)):
        return None
    record = file_record(Path(dest))
    return record if record and record.get("key") == key and isinstance(record.get("format"), str) else None
