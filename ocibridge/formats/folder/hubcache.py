# SPDX-License-Identifier: Apache-2.0
"""The cache of huggingface_hub: `models--ORG--NAME` with `blobs`, `refs` and `snapshots`, whose files are links."""

from __future__ import annotations

from pathlib import Path

from ...errors import FormatError, SourceError, number
from ...paths import show

_SHOWN = 5


def snapshot_of(path: Path) -> Path:
    """The snapshot that a repository in the cache means: that of its main branch, else the only one.

    Args:
        path: A folder; one that is no such repository is returned as it is.

    Raises:
        SourceError: the repository has no snapshot.
        FormatError: it has several, and does not say which one is meant; or the folder is the cache itself.
    """
    snapshots = path / "snapshots"
    if not (snapshots.is_dir() and (path / "blobs").is_dir()):
        _refuse_cache(path)
        return path
    main = path / "refs" / "main"
    # A commit is 40 letters and digits; anything else in that file is none of its names.
    commit = main.read_text(encoding="utf-8", errors="replace")[:100].strip() if main.is_file() else ""
    if commit.isalnum() and (snapshots / commit).is_dir():
        return snapshots / commit
    found = sorted(each for each in snapshots.iterdir() if each.is_dir())
    if not found:
        raise SourceError(f"{path} has no snapshot", hint="download the model again")
    if len(found) > 1:
        names = ", ".join(show(each.name) for each in found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise FormatError(f"{path} has {len(found)} snapshots: {names}", hint=f"give one of them, such as {found[0]}")
    return found[0]


def _refuse_cache(path: Path) -> None:
    """Refuse the folder of all repositories, in which each file is there twice, as a blob and as a link to it."""
    found = sorted(each.parent for each in path.glob("models--*/snapshots") if each.is_dir())
    if found:
        raise FormatError(
            f"{path} is a cache of huggingface_hub, with {number(len(found), 'model')} in it",
            hint=f"give one of them, such as {found[0]}",
        )


def blobs_of(snapshot: Path) -> Path | None:
    """The folder that the links of a snapshot lead to; None where a folder is no snapshot."""
    blobs = snapshot.parent.parent / "blobs"
    return blobs if snapshot.parent.name == "snapshots" and blobs.is_dir() else None
