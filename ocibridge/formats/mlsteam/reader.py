# SPDX-License-Identifier: Apache-2.0
"""An MLSteam archive as a model (seed 002).

The identity is made of the sha256 of every member, and an exact restoration needs to know how each was compressed; a
zip archive says neither. So reading costs one pass over the archive and one over its contents (more where a member is
deflated at an unusual level), in bounded memory; every file then has its sha256, so nothing later hashes it again.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Sequence
from pathlib import Path

from ...errors import FormatError, LimitError, SourceError
from ...io.content import BytesContent, Content, FileContent, read_all
from ...io.readers import chunks
from ...model import Model, ModelFile, Role
from ...paths import check_path, show
from ...settings import READ_SIZE, SMALL_FILE
from ..options import ReadOptions
from ..zip import Member, MemberContent, check_names, read_directory
from .deflate import find_level
from .encrypted import KEY_SUFFIX, SUFFIX, check_cells, check_no_key, is_encrypted
from .manifest import MANIFEST, parse_manifest
from .roles import role_of
from .skeleton import FOLDER, ORIGINAL, SKELETON, Skeleton, SkeletonMember, encoded

ENCRYPTED = "mlarchive.encrypted"
"""Key of `Model.origin` and `ModelFile.origin` that marks an encrypted package."""

_STORED, _DEFLATED = 0, 8


def read_mlarchive(path: Path, options: ReadOptions) -> Model:
    """Read the MLSteam archive or encrypted package at `path`.

    The files of the model are the skeleton of the archive (`.mlarchive/index.json`), the archive itself where
    `options.exact` asks for it, and the members in their order.

    Raises:
        SourceError: it cannot be read, or changed while it was read.
        FormatError: it is a key file, breaks the rules of the format, or is something the MLSteam SDK refuses or
            could be harmed by.
        IntegrityError: a member is damaged.
        LimitError: something is larger than `options.limits`.
    """
    check_no_key(path)
    return _encrypted(path) if is_encrypted(path) else _Archive(path, options).model()


def _encrypted(path: Path) -> Model:
    check_cells(path)
    content = FileContent(path)
    sha256 = _sha256(content)
    name = path.name if path.suffix.lower() == SUFFIX else path.name + SUFFIX
    mark = {ENCRYPTED: "true"}
    file = ModelFile(check_path(name, str(path)), Role.WEIGHT, content, sha256, origin=mark)
    return Model(format="mlarchive", files=(file,), identity=f"mlarchive:{sha256}", origin=mark)


class _Archive:
    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path = path
        self._owner = str(path)
        self._options = options
        self._whole = FileContent(path)
        self._members = read_directory(path, options.limits)
        check_names(self._members, self._owner)
        for member in self._members:
            self._check(member)

    def model(self) -> Model:
        contents = {m.name: MemberContent(self._path, m, self._options.limits) for m in self._members if not m.is_dir}
        if MANIFEST not in contents:
            raise FormatError(
                f"{self._owner} has no {MANIFEST}, so it is no MLSteam archive", hint="pack the model with the SDK"
            )
        limit = self._options.limits.metadata
        if contents[MANIFEST].size > limit:
            raise LimitError(
                f"{self._owner}: {MANIFEST} has {contents[MANIFEST].size} bytes, more than the {limit} accepted"
            )
        manifest = parse_manifest(read_all(contents[MANIFEST]), self._owner, limit)
        skeleton = self._skeleton(contents)
        data = skeleton.to_json()
        if len(data) > limit:
            raise self._too_large(len(data))
        files = [ModelFile(SKELETON, Role.WEIGHT_CONFIG, BytesContent(data), hashlib.sha256(data).hexdigest())]
        if skeleton.original:
            files.append(ModelFile(ORIGINAL, Role.WEIGHT_CONFIG, self._whole, skeleton.sha256))
        for name, member in skeleton.files.items():
            role, guessed = role_of(name, member.size)
            files.append(ModelFile(name, role, contents[name], member.sha256, guessed=guessed))
        return Model(
            format="mlarchive",
            files=tuple(files),
            identity=skeleton.identity,
            info=manifest.info(),
            origin=manifest.origin(),
            warnings=(*manifest.warnings, *self._oddities(skeleton)),
        )

    def _check(self, member: Member) -> None:
        name = show(member.name)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) and not (kind == stat.S_IFDIR and member.is_dir):
            raise self._refuse(f"the member {name} is neither a file nor a folder", "replace it by a plain file")
        if member.method not in (_STORED, _DEFLATED):
            raise self._refuse(
                f"the member {name} is compressed by method {member.method}, which the MLSteam SDK cannot read",
                "pack it again with Deflate",
            )
        if member.name.lower().startswith(FOLDER):
            raise self._refuse(f"the member {name} lies in {FOLDER}, which ocibridge needs itself", "rename it")
        if member.name.lower().endswith(KEY_SUFFIX):
            raise self._refuse(
                f"the member {name} is a key file, which must never be uploaded", "remove it and pack again"
            )
        if member.size >= SMALL_FILE and member.size > self._options.limits.ratio * max(member.compressed_size, 1):
            raise LimitError(
                f"{self._owner}: the member {name} expands {member.size // max(member.compressed_size, 1)} times, more "
                f"than the {self._options.limits.ratio} times accepted",
                hint="do not trust this archive; if it is yours, pack the member without compression",
            )

    def _skeleton(self, contents: dict[str, MemberContent]) -> Skeleton:
        gaps, tail = self._gaps()
        members = [
            self._member(member, contents.get(member.name), gap)
            for member, gap in zip(self._members, gaps, strict=True)
        ]
        return Skeleton(
            sha256=_sha256(self._whole),
            size=self._whole.size,
            original=self._options.exact,
            members=members,
            tail=encoded(tail) or "",
        )

    def _gaps(self) -> tuple[list[bytes], bytes]:
        """The bytes before the data of each member, in the order of the directory, and the bytes after the last."""
        places = sorted(range(len(self._members)), key=lambda index: self._members[index].header_offset)
        ranges = [(0, 0)] * len(places)
        at = 0
        for index in places:
            member = self._members[index]
            ranges[index] = (at, member.data_offset - at)
            at = member.data_offset + member.compressed_size
        between = sum(length for _, length in ranges) + self._whole.size - at
        if between > self._options.limits.metadata:
            raise self._too_large(between)
        return [self._bytes(*each) for each in ranges], self._bytes(at, self._whole.size - at)

    def _bytes(self, offset: int, length: int) -> bytes:
        return read_all(FileContent(self._path, offset, length))

    def _member(self, member: Member, content: MemberContent | None, gap: bytes) -> SkeletonMember:
        plain: Content = content or BytesContent(b"")
        level = None
        if member.method == _DEFLATED:
            level = find_level(plain, FileContent(self._path, member.data_offset, member.compressed_size))
        return SkeletonMember(
            name=member.name,
            size=member.size,
            sha256=_sha256(plain),
            crc=member.crc,
            method=8 if member.method else 0,
            level=level,
            compressed_size=member.compressed_size,
            header_offset=member.header_offset,
            create_version=member.create_version,
            create_system=member.create_system,
            extract_version=member.extract_version,
            flags=member.flags,
            time=member.time,
            date=member.date,
            internal_attr=member.internal_attr,
            external_attr=member.external_attr,
            raw_name=None if member.raw_name == member.name.encode() else encoded(member.raw_name),
            extra=encoded(member.extra),
            local_extra=encoded(member.local_extra),
            comment=encoded(member.comment),
            gap=encoded(gap) or "",
        )

    def _oddities(self, skeleton: Skeleton) -> Sequence[str]:
        foreign = [member.name for member in skeleton.members if member.method == _DEFLATED and member.level is None]
        if not foreign or skeleton.original:
            return ()
        more = f" and {len(foreign) - 1} more" if foreign[1:] else ""
        return (
            f"{show(foreign[0])}{more}: not compressed by this zlib; a pull gives the same members in the same order, "
            "but not the same archive bytes (--keep-archive stores those, too)",
        )

    def _refuse(self, reason: str, hint: str) -> FormatError:
        return FormatError(f"{self._owner}: {reason}", hint=hint)

    def _too_large(self, size: int) -> LimitError:
        return LimitError(
            f"{self._owner} has {size} bytes of headers and directory, more than the {self._options.limits.metadata} "
            "accepted",
            hint="pack the model into fewer, larger files",
        )


def _sha256(content: Content) -> str:
    digest = hashlib.sha256()
    count = 0
    with content.open() as reader:
        for chunk in chunks(reader, max(1, min(content.size, READ_SIZE))):
            digest.update(chunk)
            count += len(chunk)
    if count != content.size:
        raise SourceError(
            "the archive changed while it was read", hint="run the command again once nothing writes to it"
        )
    return digest.hexdigest()
