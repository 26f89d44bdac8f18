# SPDX-License-Identifier: Apache-2.0
"""A layer as a description of bytes: files under an encoding. Nothing is written anywhere to make one."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass

from ..content import BytesContent, Concatenation, Content, Reader, chunks, writable
from ..errors import FormatError, IntegrityError, SourceError
from ..model import ByteCount, FileEntry, ModelFile, Role, ignore_bytes
from ..oci import Descriptor
from ..paths import check_path, show
from ..settings import DEFAULT_LIMITS, Limits
from .encoding import Encoding, PieceReader, compress, decompress
from .tar import DIRECTORY, REGULAR, read_tar, tar_parts


@dataclass(frozen=True, slots=True)
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
        """What messages and progress call it."""
        first = self.files[0].path
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"

    @property
    def promised(self) -> bool:
        """Whether the format promises the digest of the blob, so that it need not be read to be known."""
        return self.encoding is Encoding.RAW and self.files[0].sha256 is not None

    @property
    def plain(self) -> Content:
        """The bytes before compression."""
        if self.encoding is Encoding.RAW:
            return self.files[0].content
        return Concatenation(tar_parts([(file.path, file.content) for file in self.files]))

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
        source = self._plain.open()
        reader = PieceReader(_closing(source, compress(source, self._encoding, self._plain.size)))
        while offset:
            skipped = len(reader.read(min(offset, 1 << 20)) or b"")
            if not skipped:
                break
            offset -= skipped
        return reader


def _closing(source: Reader, pieces: Iterator[bytes]) -> Iterator[bytes]:
    with source:
        yield from pieces


@dataclass(frozen=True, slots=True)
class LayerDigests:
    """What one read of a layer has found.

    Attributes:
        digest: Digest of the blob.
        size: Length of the blob in bytes.
        diff_id: Digest of the uncompressed tar; of the blob itself where there is none (seed 001, config,
            `modelfs.diffIds`).
        files: Hex sha256 of each file of `Layer.files`, in that order.
    """

    digest: str
    size: int
    diff_id: str
    files: tuple[str, ...]


def describe(layer: Layer, on_bytes: ByteCount = ignore_bytes) -> LayerDigests:
    """Find digest, diff id and file hashes of a layer, reading each byte once at most.

    A raw layer whose file has a promised sha256 is not read at all: whoever stores the blob verifies it.

    Args:
        layer: The layer.
        on_bytes: Told the number of file bytes read, as they are.

    Raises:
        IntegrityError: a file does not have the sha256 that its format promises.
        SourceError: a file cannot be read, or changed its size.
    """
    first = layer.files[0]
    if layer.promised:
        digest = f"sha256:{first.sha256}"
        return LayerDigests(digest, first.size, digest, (str(first.sha256),))
    taps = [_Tap(file.content, on_bytes) for file in layer.files]
    plain = taps[0]
    if layer.encoding is not Encoding.RAW:
        named = [(file.path, tap) for file, tap in zip(layer.files, taps, strict=True)]
        plain = _Tap(Concatenation(tar_parts(named)))
    blob, size = plain.hash, plain.size
    with plain.open() as reader:
        if layer.encoding.compressed:
            blob, size = hashlib.sha256(), 0
            for piece in compress(reader, layer.encoding, plain.size):
                blob.update(piece)
                size += len(piece)
        else:
            for _ in chunks(reader):
                pass
    for file, tap in zip(layer.files, taps, strict=True):
        _check_file(file, tap)
    return LayerDigests(
        "sha256:" + blob.hexdigest(),
        size,
        "sha256:" + plain.hash.hexdigest(),
        tuple(tap.hash.hexdigest() for tap in taps),
    )


def _check_file(file: ModelFile, tap: _Tap) -> None:
    if tap.count != file.size:
        raise SourceError(
            f"{show(file.path)} gave {tap.count} bytes where {file.size} were announced",
            hint="run the command again once nothing writes to it",
        )
    if file.sha256 and tap.hash.hexdigest() != file.sha256:
        raise IntegrityError(
            f"{show(file.path)} has the sha256 {tap.hash.hexdigest()}, its format promises {file.sha256}",
            hint="the source is damaged: fetch or pack it again",
        )


class _Tap:
    """A content that is hashed and counted while it is read, once, from its start."""

    def __init__(self, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        self._content = content
        self.on_bytes = on_bytes
        self.hash = hashlib.sha256()
        self.count = 0

    @property
    def size(self) -> int:
        return self._content.size

    def open(self, offset: int = 0) -> Reader:
        assert offset == 0
        return _TapReader(self._content.open(), self)


class _TapReader(io.RawIOBase):
    def __init__(self, reader: Reader, tap: _Tap) -> None:
        self._reader = reader
        self._tap = tap

    @property
    def digest(self) -> str:
        return "sha256:" + self._tap.hash.hexdigest()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        target = writable(buffer)
        count = self._reader.readinto(target) or 0
        self._tap.hash.update(target[:count])
        self._tap.count += count
        self._tap.on_bytes(count)
        return count

    def close(self) -> None:
        self._reader.close()
        super().close()


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A layer as a manifest describes it.

    Attributes:
        descriptor: Its descriptor.
        encoding: See `Encoding`.
        role: The kind of layer it is.
        files: What is known of its files; empty where only the tar headers will tell.
        diff_id: Its diff id as the config records it, if it does.
    """

    descriptor: Descriptor
    encoding: Encoding
    role: Role
    files: tuple[FileEntry, ...] = ()
    diff_id: str | None = None


@dataclass(frozen=True, slots=True)
class UnpackedFile:
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


def unpack(layer: StoredLayer, blob: Reader, limits: Limits = DEFAULT_LIMITS) -> Iterator[UnpackedFile]:
    """The files of a layer, streaming.

    Args:
        layer: The layer.
        blob: Its bytes, verified by the reader itself at its end; read to that end.
        limits: See `ocibridge.settings.Limits`.

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
    plain = blob
    tap = None
    if layer.encoding.compressed:
        tap = _TapReader(decompress(blob, layer.encoding, owner, limits), _Tap(BytesContent(b"")))
        plain = tap
    listed = {file.path: file for file in layer.files}
    seen = set()
    for entry in read_tar(plain, owner, limits):
        if entry.kind == DIRECTORY:
            if entry.path not in ("", "."):
                check_path(entry.path, owner)
            continue
        path = check_path(entry.path, owner)
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
    for _ in chunks(blob):
        pass
    if tap and layer.diff_id not in (None, tap.digest):
        raise IntegrityError(
            f"{owner} unpacks to {tap.digest}, its config says {layer.diff_id}",
            hint="the artifact was built wrongly: publish it again",
        )
    if missing := set(listed) - seen:
        raise IntegrityError(f"{owner} lacks {show(min(missing))}, which its manifest lists")
