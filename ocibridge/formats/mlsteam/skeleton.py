# SPDX-License-Identifier: Apache-2.0
"""`.mlarchive/index.json`: what a zip archive has besides the contents of its members.

An archive is, from its first byte to its last: for each member its gap (the local header, before it what the member
before left behind, such as a data descriptor) and its data, then the tail (directory, end record, comment). With gaps
and tail verbatim and the data compressed again at the same level, the archive comes back byte for byte. The other
fields (APPNOTE 4.4) serve where the codec writes other bytes: then headers and directory are made anew from them.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Strict, StringConstraints, TypeAdapter
from pydantic.dataclasses import dataclass

from ...errors import FormatError, IntegrityError
from ...oci import Document
from ...oci.document import parse_document
from ...paths import check_collisions, check_path, show

FOLDER = ".mlarchive/"
SKELETON = FOLDER + "index.json"
ORIGINAL = FOLDER + "original.mlarchive"
"""The whole archive, where it travels along."""

_NOTHING = hashlib.sha256().hexdigest()
_DAMAGED = "the artifact is damaged or incomplete; publish the archive again"


def _decodable(text: str) -> str:
    b64decode(text, validate=True)
    return text


Text = Annotated[str, Strict()]
Base64 = Annotated[Text, AfterValidator(_decodable)]
U8 = Annotated[int, Strict(), Field(ge=0, le=0xFF)]
U16 = Annotated[int, Strict(), Field(ge=0, le=0xFFFF)]
U32 = Annotated[int, Strict(), Field(ge=0, le=0xFFFFFFFF)]
U63 = Annotated[int, Strict(), Field(ge=0, lt=1 << 63)]
Sha256 = Annotated[Text, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def encoded(data: bytes) -> str | None:
    """Bytes as a field of the skeleton; none where there are none."""
    return b64encode(data).decode() if data else None


@dataclass(config=Document.model_config, slots=True, kw_only=True)
class SkeletonMember:
    """One member; sizes and offsets in bytes, bytes in base64. No `Document`: that takes 3 KiB for each of very many.

    Attributes:
        name: Its path, or a path and a slash for a directory entry.
        raw_name: Its name in the archive, where that is not `name` in UTF-8.
        level: Deflate level at which zlib makes the same bytes; None where there is none, or nothing is deflated.
        gap: What is between the data of the member before and the data of this one.
    """

    name: Text
    size: U63
    sha256: Sha256
    crc: U32
    method: Literal[0, 8]
    level: Annotated[int, Strict(), Field(ge=0, le=9)] | None = None
    compressed_size: U63
    header_offset: U63
    create_version: U8
    create_system: U8
    extract_version: U16
    flags: U16
    time: U16
    date: U16
    internal_attr: U16
    external_attr: U32
    raw_name: Base64 | None = None
    extra: Base64 | None = None
    local_extra: Base64 | None = None
    comment: Base64 | None = None
    gap: Base64

    @property
    def is_dir(self) -> bool:
        """True if it is a directory entry."""
        return self.name.endswith("/")

    @property
    def raw(self) -> bytes:
        """Its name as the bytes of the archive."""
        return self.name.encode() if self.raw_name is None else b64decode(self.raw_name)


class Skeleton(Document):
    """The skeleton of one archive.

    Attributes:
        sha256: Hex sha256 of the archive.
        size: Length of the archive in bytes.
        original: Whether the archive itself travels along, as `ORIGINAL`.
        members: Its members, in the order of its directory.
        tail: What follows the data of the last member, in base64.
    """

    schema_version: Literal[1] = 1
    sha256: Sha256
    size: U63
    original: bool = False
    members: list[SkeletonMember]
    tail: Base64

    @property
    def files(self) -> dict[str, SkeletonMember]:
        """The members that are no directory entries, by name."""
        return {member.name: member for member in self.members if not member.is_dir}

    @property
    def identity(self) -> str:
        """`mlarchive:` and the sha256 of a line `name=sha256` per member, directory entries too, in their order."""
        lines = (f"{member.name}={member.sha256}\n" for member in self.members)
        return "mlarchive:" + hashlib.sha256("".join(lines).encode()).hexdigest()

    def check(self, hashes: Mapping[str, str], identity: str | None, owner: str) -> str:
        """Check that exactly its files have arrived, and return the identity that this proves.

        Args:
            hashes: Hex sha256 by path of what has arrived.
            identity: The identity that the publisher recorded, if any.
            owner: What it is called in messages.

        Raises:
            IntegrityError: a file is missing, another one or too many, or the identity is not the recorded one.
        """
        files = self.files
        for name in sorted(files.keys() | hashes.keys()):
            if name not in hashes or name not in files:
                what = "did not arrive" if name in files else "arrived, but the archive has no such member"
                raise IntegrityError(f"{owner}: the file {show(name)} {what}", hint=_DAMAGED)
            if hashes[name] != files[name].sha256:
                raise IntegrityError(
                    f"{owner}: the file {show(name)} has not the sha256 that {SKELETON} gives for it", hint=_DAMAGED
                )
        if identity not in (None, self.identity):
            raise IntegrityError(f"{owner} would be {self.identity}, but was published as {identity}", hint=_DAMAGED)
        return self.identity


_MEMBER = TypeAdapter(SkeletonMember)


def _part(fields: dict[str, Any]) -> Any:
    """A member for the JSON object of one, any other object as it is."""
    return _MEMBER.validate_python(fields) if "headerOffset" in fields else fields


def parse_skeleton(data: bytes, owner: str, limit: int) -> Skeleton:
    """Parse a skeleton from an artifact.

    Raises:
        LimitError: there are more than `limit` bytes.
        FormatError: it is no skeleton, or has unsafe or colliding names.
    """
    where = f"{owner}: {SKELETON}"
    found = parse_document(Skeleton, data, where, limit, _part)
    for member in found.members:
        check_path(member.name.removesuffix("/"), where)
        if member.is_dir and (member.size, member.crc, member.sha256) != (0, 0, _NOTHING):
            raise FormatError(f"{where}: {show(member.name)} is a folder, but not empty", hint=_DAMAGED)
    check_collisions(found.files, where)
    return found
