# SPDX-License-Identifier: Apache-2.0
"""One long file as volumes of a given size: `NAME.001`, `NAME.002`, …, and their hashes in `NAME.sha256`.

Put together with `cat NAME.??? > NAME` they are the file; `sha256sum --check NAME.sha256` checks them.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import FormatError, IntegrityError, LimitError, NotFound, OcibridgeError, SourceError, reading
from ..io.content import Concatenation, Content, FileContent
from ..io.hasher import BackgroundHasher
from ..io.incoming import read_pieces
from ..io.readers import ByteCount, ignore_bytes
from ..settings import KiB

MOST = 999
"""Volumes that a file can have."""
LEAST_SIZE = 64 * KiB
"""Bytes that a volume has at least."""
_NUMBER = re.compile(r"[0-9]{3}")
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\\\r\n]+)")
_LONGEST_LIST = 1024 * KiB


def volume_path(path: Path, number: int) -> Path:
    """Name of a volume."""
    return path.with_name(f"{path.name}.{number:03}")


def list_path(path: Path) -> Path:
    """Name of the list of the volumes' hashes."""
    return path.with_name(f"{path.name}.sha256")


def numbered(path: Path) -> dict[int, Path]:
    """The volumes next to `path`, by number."""
    found = {}
    with suppress(OSError):
        for each in path.parent.glob(f"{glob.escape(path.name)}.[0-9][0-9][0-9]"):
            if _NUMBER.fullmatch(each.name[-3:]):
                found[int(each.name[-3:])] = each
    return dict(sorted(found.items()))


def is_there(path: Path) -> bool:
    """Return whether there is a file of this name, or a volume of one."""
    return os.path.lexists(path) or bool(numbered(path))


def existing(path: Path, split: bool) -> list[Path]:
    """Existing files of an archive; a checksum list alone counts only for writing."""
    volumes = list(numbered(path).values())
    listed = [list_path(path)] if volumes or split else []
    return [each for each in (path, *volumes, *listed) if os.path.lexists(each)]


class Volumes:
    """A file that may be there as volumes.

    Args:
        path: The file; where there is one of this name, its volumes do not matter.

    Attributes:
        files: The file, or its volumes in order.
        content: All their bytes.
        split: Whether they are volumes.

    Raises:
        NotFound: there is neither a file nor a volume, or one volume is missing.
        IntegrityError: a volume is shorter or longer than the first.
        FormatError: the list of hashes is not valid.
        SourceError: something cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        there = {} if os.path.lexists(path) else numbered(path)
        self.split = bool(there)
        self._hashes: dict[str, str] | None = None
        if not self.split:
            if not path.exists():
                raise NotFound(
                    f"there is no archive oci-archive:{path}", hint="check the path, or push something to it first"
                )
            with reading(path):
                if not path.is_file():
                    raise FormatError(f"{path} is not a file", hint="write oci:DIR for a layout that is a folder")
        else:
            self._hashes = _read_list(path)
            _check_numbers(path, there, self._hashes)
        self.files = list(there.values()) or [path]
        parts = [FileContent(each, whole=True) for each in self.files]
        for part in parts[:-1]:
            if part.size != parts[0].size:
                hint = "one of them was not copied whole; copy them again"
                if self._hashes is None:
                    hint = (
                        f"copy them again with {list_path(path).name}; where there is none, pack again with --overwrite"
                    )
                raise IntegrityError(
                    f"the volume {part.path} has {part.size} bytes, and {parts[0].path.name} has {parts[0].size}",
                    hint=hint,
                )
        if len(parts) > 1 and not 0 < parts[-1].size <= parts[0].size:
            raise IntegrityError(f"the volume {parts[-1].path} has {parts[-1].size} bytes", hint="copy it again")
        self.content: Content = Concatenation(parts) if self.split else parts[0]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self.content.size

    def verify(self, on_bytes: ByteCount = ignore_bytes) -> None:
        """Compare the volumes with the list of their hashes; a file that is not split has none.

        Args:
            on_bytes: Called with the number of bytes read.

        Raises:
            IntegrityError: a volume is damaged.
            NotFound: there is no list.
        """
        if not self.split:
            return
        if self._hashes is None:
            raise NotFound(
                f"there is no {list_path(self.path)}, which belongs to the volumes",
                hint="copy it here too; where there is none, the archive was not finished",
            )
        for file in self.files:
            if _hash(FileContent(file, whole=True), on_bytes) != self._hashes[file.name]:
                raise IntegrityError(
                    f"the volume {file} is damaged (its sha256 is not the one in {list_path(self.path).name})",
                    hint="copy this volume again",
                )


def _hash(content: Content, on_bytes: ByteCount) -> str:
    digest = hashlib.sha256()
    with content.open() as reader, BackgroundHasher(thread=content.size > LEAST_SIZE) as hasher:
        for piece in read_pieces(reader, content.size):
            hasher.update(digest, piece)
            on_bytes(len(piece))
            hasher.wait(left=1)
    return digest.hexdigest()


def listed_names(path: Path) -> set[str]:
    """Names of the volumes that `NAME.sha256` lists; none where there is no such list."""
    with suppress(OcibridgeError):
        return set(_read_list(path) or ())
    return set()


def _read_list(path: Path) -> dict[str, str] | None:
    """Hashes by the names of the volumes, as sha256sum(1) writes them; None where there is no list."""
    file = list_path(path)
    if not file.exists():
        return None
    with reading(file), open(file, "rb") as stream:
        data = stream.read(_LONGEST_LIST + 1)
    found = {}
    for line in _lines(data, file):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found or not _NUMBER.fullmatch(match[2].removeprefix(path.name + ".")):
            raise FormatError(f"{file} is no list of the volumes of {path.name}", hint="copy it again")
        found[match[2]] = match[1]
    return found


def _lines(data: bytes, file: Path) -> Iterator[str]:
    if len(data) > _LONGEST_LIST:
        raise LimitError(f"{file} has more than {_LONGEST_LIST} bytes")
    try:
        yield from data.decode().splitlines()
    except UnicodeDecodeError:
        raise FormatError(f"{file} is not UTF-8", hint="copy it again") from None


def _check_numbers(path: Path, there: dict[int, Path], hashes: dict[str, str] | None) -> None:
    wanted = {volume_path(path, number).name for number in range(1, max(there) + 1)} if hashes is None else set(hashes)
    names = {each.name for each in there.values()}
    if missing := sorted(wanted - names):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NotFound(
            f"the volume {path.with_name(missing[0])}{more} is missing", hint="copy all volumes into one folder"
        )
    if strange := sorted(names - wanted):
        raise SourceError(
            f"{path.with_name(strange[0])} is not in {list_path(path).name}",
            hint="remove it: it belongs to another archive of this name",
        )
