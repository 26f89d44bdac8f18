# SPDX-License-Identifier: Apache-2.0
"""Encrypted MLSteam packages, recognised by their structure and never opened.

A package is a row of cells, each behind its length: a u64, then a Themis Secure Cell in Seal mode, all little-endian.
Keys (`.enckey`) are wrapped with a passphrase that ships in the SDK, so such a file is as good as the key itself.
"""

from __future__ import annotations

import struct
from pathlib import Path

from ...errors import FormatError, reading

SUFFIX = ".mlarchive"
"""Of packages as of archives that are not encrypted."""
KEY_SUFFIX = ".enckey"

_HEAD = struct.Struct("<Q4s3L")
"""length of the cell; algorithm; lengths of initialisation vector, tag and message"""
_WITH_KEY = b"\x00\x01\x01\x40"
_WITH_PASSPHRASE = b"\x00\x01\x01\x41"
_OVERHEAD = 16 + 12 + 16  # header, initialisation vector, tag


def is_encrypted(path: Path) -> bool:
    """Return whether the file at `path` begins like an encrypted package.

    Raises:
        SourceError: it cannot be read.
    """
    with reading(path), open(path, "rb") as file:
        return _cell(file.read(_HEAD.size)) is not None


def check_cells(path: Path) -> None:
    """Check that an encrypted package is whole: cells from its first byte to its last.

    Raises:
        SourceError: it cannot be read.
        FormatError: it is cut short, or something else follows.
    """
    with reading(path), open(path, "rb") as file:
        end = file.seek(0, 2)
        at = 0
        while at < end:
            file.seek(at)
            length = _cell(file.read(_HEAD.size))
            if length is None or at + 8 + length > end:
                raise FormatError(
                    f"{path} is a damaged encrypted MLSteam package: at byte {at} there is no whole cell",
                    hint="it was probably cut short; fetch it again",
                )
            at += 8 + length


def check_no_key(path: Path) -> None:
    """Refuse a key file by its name alone, without opening it.

    Raises:
        FormatError: `path` is named `*.enckey`.
    """
    if path.suffix.lower() == KEY_SUFFIX:
        raise FormatError(
            f"{path} is the key of an encrypted MLSteam package; keys are never read or uploaded",
            hint="give the .mlarchive instead, and hand over the key some other way",
        )


def _cell(head: bytes) -> int | None:
    """The length of the cell, if these are its first bytes."""
    if len(head) < _HEAD.size:
        return None
    length, algorithm, vector, tag, message = _HEAD.unpack(head)
    if (vector, tag) != (12, 16):
        return None
    whole = algorithm == _WITH_KEY and length == _OVERHEAD + message
    # With a passphrase there is one more field, whose length the header does not tell here.
    return length if whole or (algorithm == _WITH_PASSPHRASE and length > _OVERHEAD + message) else None
