# SPDX-License-Identifier: Apache-2.0
"""The fixed parts of the zip records (APPNOTE 6.3.10, sections 4.3 and 4.5), little-endian without padding."""

from __future__ import annotations

import struct

STORED = 0
DEFLATED = 8
ZSTD = 93

LOCAL = struct.Struct("<4s5H3L2H")
"""signature, version needed, flags, method, time, date, crc, compressed size, size, name length, extra length"""
CENTRAL = struct.Struct("<4s2B5H3L5H2L")
"""signature, made by (version, system), version needed, flags, method, time, date, crc, compressed size, size, name
length, extra length, comment length, disk, internal attributes, external attributes, offset of the local header"""
END = struct.Struct("<4s4H2LH")
"""signature, disk, disk of the directory, entries on this disk, entries, directory size, directory offset, comment
length"""
END64 = struct.Struct("<4sQ2H2L4Q")
"""signature, size of the rest, made by, version needed, disk, disk of the directory, entries on this disk, entries,
directory size, directory offset"""
LOCATOR = struct.Struct("<4sLQL")
"""signature, disk of the zip64 end record, its offset, number of disks"""
EXTRA = struct.Struct("<2H")
"""id, length"""

LOCAL_SIGNATURE = b"PK\x03\x04"
CENTRAL_SIGNATURE = b"PK\x01\x02"
END_SIGNATURE = b"PK\x05\x06"
END64_SIGNATURE = b"PK\x06\x06"
LOCATOR_SIGNATURE = b"PK\x06\x07"

MAX16 = 0xFFFF
MAX32 = 0xFFFFFFFF
ZIP64_EXTRA = 0x0001
UNICODE_PATH_EXTRA = 0x7075

FLAG_DESCRIPTOR = 0x0008
FLAG_UTF8 = 0x0800
FLAGS_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
FLAG_PATCH = 0x0020

SYSTEM_UNIX = 3
VERSION_ZIP64 = 45


def end_records(count: int, size: int, offset: int) -> bytes:
    """The end records of a directory of `count` members and `size` bytes at `offset`; zip64 if necessary."""
    wide = b""
    if count >= MAX16 or size >= MAX32 or offset >= MAX32:
        fields = (0, 0, count, count, size, offset)
        wide = END64.pack(END64_SIGNATURE, END64.size - 12, VERSION_ZIP64, VERSION_ZIP64, *fields)
        wide += LOCATOR.pack(LOCATOR_SIGNATURE, 0, offset + size, 1)
    small = min(count, MAX16)
    return wide + END.pack(END_SIGNATURE, 0, 0, small, small, min(size, MAX32), min(offset, MAX32), 0)


def quads(*values: int) -> bytes:
    """Numbers of eight bytes."""
    return b"".join(value.to_bytes(8, "little") for value in values)
