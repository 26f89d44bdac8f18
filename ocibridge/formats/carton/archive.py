# SPDX-License-Identifier: Apache-2.0
"""Entries of a carton, a zip archive or a folder: files and symbolic links, before MANIFEST is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import FormatError, LimitError, reading
from ...io.content import Content, FileContent, read_all
from ...io.marker import is_own_name
from ...paths import check_collisions, check_path, show
from ...settings import Limits
from ..zip import MemberContent, check_names, read_directory

_MAX_TARGET = 4096


@dataclass(frozen=True, slots=True)
class Entries:
    """The files and links of a carton.

    Attributes:
        files: Content by path, of everything that is no link.
        links: Target text by path.
        warnings: Oddities, one sentence each.
    """

    files: Mapping[str, Content]
    links: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def list_entries(path: Path, limits: Limits) -> Entries:
    """Look into the carton at `path`, an archive or a folder, without reading its files.

    Raises:
        SourceError: it cannot be read.
        FormatError: a name is unsafe or collides, the archive is broken, or the folder has something in it that is
            neither a file nor a link to one.
        LimitError: there are too many files.
    """
    return _folder(path, limits) if path.is_dir() else _archive(path, limits)


def _archive(path: Path, limits: Limits) -> Entries:
    members = read_directory(path, limits)
    check_names(members, str(path))
    files: dict[str, Content] = {}
    links: dict[str, str] = {}
    warnings = []
    for member in members:
        content = MemberContent(path, member, limits)
        if member.is_symlink:
            links[member.name] = _target(content, f"{path}: the symbolic link {show(member.name)}")
        elif not member.is_dir:
            files[member.name] = content
        if member.size > limits.ratio * max(member.compressed_size, 1):
            warnings.append(
                f"{show(member.name)} expands {member.size // max(member.compressed_size, 1)} times, to {member.size} "
                "bytes; the carton client reads it all the same"
            )
    return Entries(files, links, tuple(warnings))


def _target(content: MemberContent, where: str) -> str:
    try:
        return read_all(content).decode() if content.size <= _MAX_TARGET else ""
    except UnicodeDecodeError:
        raise FormatError(f"{where} has a target that is not UTF-8", hint="replace the link by the file") from None


def _folder(path: Path, limits: Limits) -> Entries:
    files: dict[str, Content] = {}
    links: dict[str, str] = {}
    owner = str(path)

    def stop(exc: OSError) -> None:
        raise exc

    with reading(path):
        for folder, names, leaves in os.walk(path, onerror=stop):
            names[:] = sorted(name for name in names if not is_own_name(name, True))
            leaves = [name for name in leaves if not is_own_name(name, False)]
            if len(files) + len(links) + len(leaves) > limits.entries:
                raise LimitError(f"{owner} has more than the {limits.entries} files accepted")
            for name in sorted([*names, *leaves]):
                place = Path(folder, name)
                mode = place.lstat().st_mode
                if stat.S_ISDIR(mode):
                    continue
                inner = check_path(place.relative_to(path).as_posix(), owner)
                if stat.S_ISLNK(mode):
                    links[inner] = _read_link(place, inner, owner)
                elif stat.S_ISREG(mode):
                    files[inner] = FileContent(place)
                else:
                    raise FormatError(
                        f"{owner}: {show(inner)} is neither a file nor a folder", hint="remove it and try again"
                    )
    check_collisions([*files, *links], owner)
    return Entries(files, links)


def _read_link(place: Path, inner: str, owner: str) -> str:
    if place.is_dir():
        raise FormatError(
            f"{owner}: {show(inner)} is a link to a folder, which a carton cannot hold",
            hint="replace the link by a copy of the folder",
        )
    return os.readlink(place).replace(os.sep, "/")  # noqa: PTH115 - the text as it is
