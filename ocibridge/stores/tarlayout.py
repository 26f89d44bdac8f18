# SPDX-License-Identifier: Apache-2.0
"""Reading an OCI image layout in a tar archive, of which nothing is unpacked: a blob is a range of it."""

from __future__ import annotations

from ..errors import FormatError, LimitError
from ..io.content import Content, read_all
from ..io.readers import RangeReader, Reader, SkippingReader
from ..layers.tar import DIRECTORY, REGULAR, read_tar
from ..oci import SHA256
from ..paths import check_path, show
from ..settings import DEFAULT_LIMITS, Limits
from .imageindex import BLOBS, INDEX, OCI_LAYOUT, ImageIndex
from .layout import check_layout_file

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


def read_layout(content: Content, owner: str, limits: Limits = DEFAULT_LIMITS) -> tuple[ImageIndex, dict[str, Slice]]:
    """The index of a layout in a tar archive, and its blobs by their digests, which are passed over and not read.

    Args:
        content: The archive.
        owner: What messages call it.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        FormatError: it is no tar archive of an image layout of version 1, or could be read in two ways.
        IntegrityError: it ends too early.
        LimitError: it has too many entries, or `index.json` is too large.
    """
    files = _scan(content, owner, limits)
    for name in (OCI_LAYOUT, INDEX):
        if name not in files:
            raise FormatError(
                f"{owner} is not an archive of an OCI image layout (it has no file {name})",
                hint="an archive made by 'docker save' has to be converted first, say with skopeo",
            )
        if files[name].size > limits.metadata:
            raise LimitError(f"{owner}: {name} has {files[name].size} bytes, more than {limits.metadata}")
    check_layout_file(read_all(files.pop(OCI_LAYOUT)), f"{OCI_LAYOUT} of {owner}")
    index = ImageIndex.parse(read_all(files.pop(INDEX)), f"{INDEX} of {owner}", limits)
    return index, {"sha256:" + name.rpartition("/")[2]: found for name, found in files.items()}


def _scan(content: Content, owner: str, limits: Limits) -> dict[str, Slice]:
    files: dict[str, Slice] = {}
    with content.open() as start:
        if (start.read(4) or b"").startswith(_COMPRESSED):
            raise FormatError(f"{owner} is compressed", hint="decompress it first, with gunzip or unzstd")
    with SkippingReader(content.open, content.size) as reader:
        for entry in read_tar(reader, owner, limits):
            if entry.path not in ("", "."):
                check_path(entry.path, owner)
            if entry.kind != DIRECTORY and _belongs(entry.path):
                if entry.kind != REGULAR or entry.path in files:
                    what = "is a link" if entry.kind != REGULAR else "appears twice"
                    raise FormatError(
                        f"{owner}: {show(entry.path)} {what}", hint="such an archive can be read in two ways"
                    )
                files[entry.path] = Slice(content, reader.position, entry.size, owner)
    return files


def _belongs(name: str) -> bool:
    folder, _, last = name.rpartition("/")
    return name in (OCI_LAYOUT, INDEX) or (folder == BLOBS and SHA256.fullmatch(last) is not None)


class Slice:
    """A range of another content.

    Args:
        content: The other one.
        offset: First byte of the range.
        size: Length of the range in bytes.
        label: What messages call it.
    """

    def __init__(self, content: Content, offset: int, size: int, label: str) -> None:
        self._content = content
        self._offset = offset
        self._size = size
        self._label = label

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset` bytes into the range."""
        return RangeReader(self._content.open(self._offset + offset), self._size - offset, self._label)
