# SPDX-License-Identifier: Apache-2.0
"""The MANIFEST of a carton: a path and a sha256 per line (seed 000, "MANIFEST")."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from ...errors import FormatError, LimitError
from ...paths import check_collisions, check_path, show
from .names import UNLISTED

_SHA256 = re.compile(r"[0-9a-f]{64}")
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class CartonManifest:
    """A parsed MANIFEST.

    Attributes:
        rows: Lower-case hex sha256 by path, in the order of the file.
        sha256: Hex sha256 of the bytes: the manifest hash, which is the identity of the carton.
        warnings: Oddities, one sentence each.
    """

    rows: dict[str, str]
    sha256: str
    warnings: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """The identity of the carton."""
        return f"carton:{self.sha256}"


def parse_manifest(data: bytes, owner: str, limit: int) -> CartonManifest:
    """Parse a MANIFEST, tolerating what the carton client reads without harm.

    Args:
        data: Its bytes.
        owner: The carton, for messages.
        limit: Largest size accepted, in bytes.

    Raises:
        LimitError: there are more than `limit` bytes.
        FormatError: a line is no row, a path is unsafe or collides, or a file is listed that cannot have a row.
    """
    where = f"{owner}: MANIFEST"
    if len(data) > limit:
        raise LimitError(f"{where} has {len(data)} bytes, more than the {limit} accepted")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FormatError(f"{where} is not UTF-8", hint="pack the model again") from None
    odd = []
    if text.startswith(_BOM):
        text = text[1:]
        odd.append("it starts with a byte order mark")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    elif text:
        odd.append("it has no final newline")
    if any(line.endswith("\r") for line in lines):
        lines = [line[:-1] if line.endswith("\r") else line for line in lines]
        odd.append("its lines end in CRLF")
    pairs = [_row(line, number, where) for number, line in enumerate(lines, 1)]
    if any(sha256 != sha256.lower() for _, sha256 in pairs):
        odd.append("it has hashes in upper case")
    names = [path for path, _ in pairs]
    check_collisions(names, where)
    if names != sorted(names):
        odd.append("it is not sorted")
    warnings = tuple(f"MANIFEST: {what}; the carton client reads it all the same" for what in odd)
    rows = {path: sha256.lower() for path, sha256 in pairs}
    return CartonManifest(rows, hashlib.sha256(data).hexdigest(), warnings)


def _row(line: str, number: int, where: str) -> tuple[str, str]:
    path, equals, sha256 = line.rpartition("=")
    if not equals or not _SHA256.fullmatch(sha256.lower()):
        raise FormatError(
            f"{where}: line {number} is no row of the form path=sha256: {show(line)}", hint="pack the model again"
        )
    if path.endswith("/"):
        raise FormatError(
            f"{where}: line {number} lists the folder {show(path)} as a file",
            hint="a runner that returned one file instead of a folder packs so; name the file and pack again",
        )
    if path in UNLISTED:
        raise FormatError(f"{where}: line {number} lists {path}, which has no row", hint="pack the model again")
    return check_path(path, where), sha256
