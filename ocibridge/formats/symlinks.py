# SPDX-License-Identifier: Apache-2.0
"""Symbolic links inside a model: text that must lead to another file of the same model."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..errors import FormatError, IntegrityError
from ..paths import show


def resolve(links: Mapping[str, str], files: Collection[str], owner: str) -> dict[str, str]:
    """Resolve each link to a file, through other links.

    Args:
        links: Target text by path of the link.
        files: Paths of all other files.
        owner: Description of the source of the links, for the message.

    Raises:
        FormatError: a link leaves the model, is part of a loop, or points to no file.
    """
    return {path: _follow(path, links, files, owner) for path in links}


def _follow(path: str, links: Mapping[str, str], files: Collection[str], owner: str) -> str:
    at = path
    seen = {path}
    while at in links:
        at = _step(at, links[at], owner)
        if at in seen:
            raise _refuse(owner, path, "runs in a circle")
        seen.add(at)
    if at not in files:
        raise _refuse(owner, path, f"leads to {show(at)}, which is no file of the model")
    return at


def _step(path: str, target: str, owner: str) -> str:
    folder = path.split("/")[:-1]
    parts = target.split("/")
    while parts and parts[0] == "..":
        if not folder:
            raise _refuse(owner, path, "leads out of the model")
        folder.pop()
        parts.pop(0)
    # Only leading '..': after a plain part its meaning depends on what that part is.
    if target.startswith("/") or ".." in parts:
        raise _refuse(owner, path, f"has a target ({show(target)}) that is absolute or not plain")
    return "/".join([*folder, *(part for part in parts if part not in ("", "."))])


def _refuse(owner: str, path: str, reason: str) -> FormatError:
    return FormatError(
        f"{owner}: the symbolic link {show(path)} {reason}", hint="replace the link by the file and pack again"
    )


def check_targets(links: Mapping[str, str], hashes: Mapping[str, str], owner: str) -> None:
    """Check that the bytes stored for each link equal those of the file that it points to.

    Args:
        links: Target text by path of the link.
        hashes: Hex sha256 by path, of files and links.
        owner: Description of the target, for the message.

    Raises:
        FormatError: see `resolve`.
        IntegrityError: the bytes differ.
    """
    for path, target in resolve(links, hashes.keys() - links.keys(), owner).items():
        if hashes[path] != hashes[target]:
            raise IntegrityError(
                f"{owner}: the symbolic link {show(path)} and its target {show(target)} have different bytes",
                hint="the artifact is damaged; pull it into another format or publish it again",
            )
