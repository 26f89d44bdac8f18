# SPDX-License-Identifier: Apache-2.0
"""A layer as a description of bytes: files under an encoding. Nothing is written anywhere to make one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..errors import FormatError, IntegrityError
from ..io.content import Concatenation, Content
from ..io.readers import HashingReader, PieceReader, Reader, chunks, drain, skip
from ..model import FileEntry, ModelFile, Role
from ..oci import Descriptor
from ..paths import check_path, show
from ..settings import DEFAULT_LIMITS, KiB, Limits
from .encoding import Encoding, compress, decompress
from .tar import DIRECTORY, REGULAR, read_tar, tar_parts

_AHEAD = 256 * KiB
"""Bytes that are read ahead of the files of a tar layer; smaller files are in memory when they are read."""


@dataclass(frozen=True)
class Layer:
    """Files under one encoding; `RAW` holds exactly one.

    Attributes:
        files: The files; tar encodings hold them in lexicographic order whatever the order here.
        encoding: See `Encoding`.
    """

    files: tuple[ModelFile, ...]
    encoding: Encoding

    @property
    def label(self) -> str:
        """Name for messages and progress."""
        first = self.files[0].path
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"

    @property
    def promised(self) -> bool:
        """True if the format records the digest of the blob, so that it is known without reading."""
        return self.encoding is Encoding.RAW and self.files[0].sha256 is not None

    @cached_property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)

    @cached_property
    def parts(self) -> Concatenation:
        """The bytes before compression: those of the file, or `tar_parts`."""
        if self.encoding is Encoding.RAW:
            return Concatenation([self.files[0].content])
        return Concatenation(tar_parts([(file.path, file.content) for file in self.files]))

    @property
    def plain(self) -> Content:
        """The bytes before compression."""
        return self.files[0].content if self.encoding is Encoding.RAW else self.parts

    def content(self, size: int) -> Content:
        """The bytes of the blob, whose `size` in bytes `describe` has found."""
        plain = self.plain
        return _Compressed(plain, self.encoding, size) if self.encoding.compressed else plain


class _Compressed:
    """Bytes that are compressed anew each time they are opened, so that no copy of them is kept anywhere."""

    def __init__(self, plain: Content, encoding: Encoding, size: int) -> None:
        self._plain = plain
        self._encoding = encoding
        self.size = size

    def open(self, offset: int = 0) -> Reader:
        reader = PieceReader(self._pieces())
        skip(reader, offset)
        return reader

    def _pieces(self) -> Iterator[bytes]:
        with self._plain.open() as source:
            yield from compress(chunks(source), self._encoding, self._plain.size)


class LayerDigests(NamedTuple):
    """Digests of a layer, found by reading it once.

    Attributes:
        digest: Digest of the blob.
        size: Length of the blob in bytes.
        diff_id: Digest of the uncompressed tar; of the blob itself where there is none (seed 001, config,
            `modelfs.diffIds`).
        files: Hex sha256 of each file of `Layer.files`, in that order; none where they are not known yet.
    """

    digest: str
    size: int
    diff_id: str
    files: tuple[str, ...]


class StoredLayer(NamedTuple):
    """A layer as a manifest describes it.

    Attributes:
        descriptor: Its descriptor.
        encoding: See `Encoding`.
        role: The kind of layer it is.
        files: What is known of its files; empty where only the tar headers will tell.
        diff_id: Its diff id as the config records it, if it does.
        prefix: Folder inside the layer that all its files are in, such as `models/`; no part of their paths here.
    """

    descriptor: Descriptor
    encoding: Encoding
    role: Role
    files: tuple[FileEntry, ...] = ()
    diff_id: str | None = None
    prefix: str = ""

    @property
    def members(self) -> tuple[FileEntry, ...]:
        """Entries of its files, with their names inside the layer."""
        return tuple(file._replace(path=self.prefix + file.path) for file in self.files)


class UnpackedFile(NamedTuple):
    """One file on its way out of a layer.

    Attributes:
        path: Checked path.
        size: Length in bytes.
        reader: Its bytes; valid until the next file is asked for.
        sha256: Hex sha256 that `reader` enforces, if it does.
    """

    path: str
    size: int
    reader: Reader
    sha256: str | None = None


def unpack(
    layer: StoredLayer, blob: Reader, limits: Limits = DEFAULT_LIMITS, gaps: bytearray | None = None
) -> Iterator[UnpackedFile]:
    """The files of a layer, streaming.

    Args:
        layer: The layer.
        blob: Its bytes, verified by the reader itself at its end; read to that end.
        limits: See `ocibridge.settings.Limits`.
        gaps: See `read_tar`.

    Raises:
        FormatError: a name is unsafe, or an entry is no file or folder.
        IntegrityError: the files are not those that the manifest lists.
    """
    owner = f"the layer {layer.descriptor.digest}"
    if layer.encoding is Encoding.RAW:
        yield UnpackedFile(
            layer.files[0].path, layer.descriptor.size, blob, layer.descriptor.digest.removeprefix("sha256:")
        )
        return
    plain, hashed = blob, None
    if layer.encoding.compressed:
        plain = hashed = HashingReader(decompress(blob, layer.encoding, owner, limits))
    listed = {file.path: file for file in layer.files}
    seen = set()
    for entry in read_tar(plain, owner, limits, ahead=_AHEAD, gaps=gaps):
        if entry.kind == DIRECTORY:
            if entry.path not in ("", "."):
                check_path(entry.path, owner)
            continue
        path = entry.path
        # What is listed was checked when the listing was read.
        if layer.prefix or path not in listed:
            path = without_prefix(check_path(path, owner), layer.prefix, owner)
        if entry.kind != REGULAR:
            raise FormatError(
                f"{owner}: {show(path)} is a link to {show(entry.link)}",
                hint="publish the model with plain files; links inside a layer are not followed",
            )
        if path in seen or (listed and path not in listed):
            raise IntegrityError(f"{owner}: {show(path)} is there twice, or not in the listing of its manifest")
        seen.add(path)
        expected = listed.get(path)
        if expected and expected.size not in (None, entry.size):
            raise IntegrityError(f"{owner}: {show(path)} has {entry.size} bytes, the manifest says {expected.size}")
        yield UnpackedFile(path, entry.size, entry.reader)
    drain(blob)
    diff_id = f"sha256:{hashed.hash.hexdigest()}" if hashed else layer.diff_id
    if layer.diff_id not in (None, diff_id):
        raise IntegrityError(
            f"{owner} unpacks to {diff_id}, its config says {layer.diff_id}",
            hint="the artifact was built wrongly: publish it again",
        )
    if missing := set(listed) - seen:
        raise IntegrityError(f"{owner} lacks {show(min(missing))}, which its manifest lists")


def without_prefix(path: str, prefix: str, owner: str) -> str:
    """The path in the model of what is called `path` (checked) in a layer; see `StoredLayer.prefix`.

    Raises:
        FormatError: it is elsewhere.
    """
    if not prefix:
        return path
    if not path.startswith(prefix):
        raise FormatError(
            f"{owner}: {show(path)} is not in the folder {show(prefix)}, which its manifest says all files are in",
            hint="the artifact was built wrongly: publish it again",
        )
    # What was one harmless part of a path may be none at its start, such as a drive.
    return check_path(path[len(prefix) :], owner)
