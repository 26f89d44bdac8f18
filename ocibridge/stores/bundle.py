# SPDX-License-Identifier: Apache-2.0
"""Many repositories in one tar file, which is an OCI image layout, whole or in volumes.

The tag of a manifest in `index.json` is its whole reference, `HOST/REPOSITORY:TAG`, as skopeo and containerd have it.
A bundle is written once, from front to back: blobs as they come, `index.json` last, nothing is rewritten. The same
blobs and entries give the same bytes.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import IntegrityError, InvalidReference, NotFound, StoreError
from ..io.content import ByteCount, Concatenation, Content, Reader, ignore_bytes
from ..io.hasher import BackgroundHasher
from ..io.positioned import check_free_space, turns
from ..layers.tar import BLOCK, END, tar_header
from ..oci import MEDIA_TYPE_INDEX, Descriptor, RegistryReference, parse_digest, parse_reference
from ..paths import show
from ..settings import DEFAULT_LIMITS, Limits
from .base import Capabilities, Store
from .imageindex import BLOBS, INDEX, LAYOUT_FILE, OCI_LAYOUT, Entry, ImageIndex, ImageLayout
from .tarlayout import read_layout
from .verified import VerifiedStore
from .volumes import Slice, Volumes, is_there
from .volumewriter import VolumeWriter, Written


class BundleWriter:
    """Writes a bundle; what is there under its name stays until `publish`.

    What an earlier writer has left unfinished is taken over as far as it is the same: blobs are read there before they
    are asked for elsewhere, and hashed like all others.

    Args:
        path: The file.
        volume_size: Length of a volume in bytes; None writes one file.
        force: Whether to replace what is there.

    Raises:
        DestinationError: it cannot be written, is there already, or is being written by another process.
        LimitError: volumes of this size are too small.
    """

    def __init__(self, path: Path, volume_size: int | None = None, force: bool = False) -> None:
        self.name = f"oci-archive:{path}"
        self._path = path
        self._digests: set[str] = set()
        self._beside = BackgroundHasher(thread=True)
        try:
            self._file = VolumeWriter(path, volume_size, self._beside, force)
        except BaseException:
            self._beside.close()
            raise
        try:
            self._append(OCI_LAYOUT, LAYOUT_FILE)
        except BaseException as exc:
            self.close(exc)
            raise

    @property
    def kept(self) -> int:
        """Bytes that an earlier writer had left, and that were taken over."""
        return self._file.kept

    def room_ahead(self) -> int:
        """Bytes that an earlier writer has left behind what is written so far."""
        return self._file.ahead(sys.maxsize).size

    def need(self, sizes: Iterable[int]) -> None:
        """Refuse to begin what has no room: blobs of these sizes; see `check_free_space`."""
        size = sum(BLOCK + each + -each % BLOCK for each in sizes)
        check_free_space(self._path.absolute().parent, str(self._path), size, self.room_ahead())

    def add(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Append a blob; one that is there is left alone. After a failure, the bundle cannot be used any more.

        Raises:
            IntegrityError: the content does not have the digest or size of the descriptor.
            DestinationError: it cannot be written.
        """
        if descriptor.digest in self._digests:
            return
        self._file.write(tar_header(f"{BLOBS}/{descriptor.digest[7:]}", descriptor.size))
        digest, end = hashlib.sha256(), self._file.written + descriptor.size
        left = self._file.ahead(descriptor.size)
        with _after(left, content, descriptor).open() as reader:
            for piece in turns(reader, descriptor.size):
                if self._file.written + len(piece) > end:
                    break
                earlier = self._beside.pending
                self._beside.update(digest, piece)
                self._file.write(piece)
                on_bytes(len(piece))
                self._beside.wait(left=max(0, self._beside.pending - earlier))
            else:
                end -= self._file.written
        self._beside.wait()
        if end or "sha256:" + digest.hexdigest() != descriptor.digest:
            cause = "what an interrupted run had left is damaged, or the source" if left.size else "the source"
            raise IntegrityError(
                f"the bytes given for the blob {descriptor.digest} ({descriptor.size} bytes) of {self.name} are others",
                hint=f"{cause} changed or is damaged; run the command again",
            )
        self._file.write(bytes(-descriptor.size % BLOCK))
        self._digests.add(descriptor.digest)

    def publish(self, entries: Sequence[Entry]) -> list[Written]:
        """Write `index.json`, and give the file or its volumes their names.

        Raises:
            DestinationError: it cannot be written.
        """
        index = ImageIndex({"schemaVersion": 2, "mediaType": MEDIA_TYPE_INDEX, "manifests": list(entries)})
        self._append(INDEX, index.to_json(self.name))
        self._file.write(END)
        return self._file.publish()

    def _append(self, name: str, data: bytes) -> None:
        self._file.write(tar_header(name, len(data)) + data + bytes(-len(data) % BLOCK))

    def close(self, exc: BaseException | None = None) -> None:
        """Remove what was not published; after an error, leave what another writer can go on with."""
        self._beside.close()
        if exc is not None and self._file.worth_keeping(exc):
            self._file.leave()
        else:
            self._file.close()

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, *_: object) -> None:
        self.close(exc)


def _after(left: Content, content: Content, descriptor: Descriptor) -> Content:
    """A blob of which the start is there already."""
    if not left.size:
        return content
    rest = descriptor.size - left.size
    return Concatenation([left, Slice(content, left.size, rest, descriptor.digest)] if rest else [left])


class BundleStore(ImageLayout):
    """A layout in a tar file or its volumes, for reading.

    Args:
        path: The file, or what it would be called if it were not split.
        limits: See `ocibridge.settings.Limits`.

    Attributes:
        volumes: The files.

    Raises:
        NotFound: there is no such file, or a volume is missing.
        FormatError: it is no tar archive of an image layout of version 1, or could be read in two ways.
        IntegrityError: it ends too early.
        SourceError: it cannot be read.
    """

    @property
    def capabilities(self) -> Capabilities:
        """Nothing can be pushed."""
        return Capabilities(self.name, parallel=False)

    def __init__(self, path: str | Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = Path(path)
        self.name = f"oci-archive:{self.path}"
        self.limits = limits
        self.volumes = Volumes(self.path)
        try:
            self._parsed, self._blobs = read_layout(self.volumes.content, str(path), limits)
        except IntegrityError:
            hint = "copy it again"
            if self.volumes.split:
                hint = "the last volume was not copied whole, or one behind it is missing"
            raise IntegrityError(f"{path} ends too early", hint=hint) from None
        self._subjects: dict[str, dict[str, Descriptor]] | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries of `index.json`, as they are."""
        return self._parsed.entries

    def _index(self) -> ImageIndex:
        return self._parsed

    def _blob(self, digest: str) -> Slice | None:
        return self._blobs.get(parse_digest(digest, self.name))

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        return super()._read_manifest(self._whole(version))

    def _whole(self, tag: str) -> str:
        """The name that is meant by the tag at its end, where there is only one."""
        tags = [] if tag.startswith("sha256:") else self._parsed.tags()
        names = [] if tag in tags else [name for name in tags if name.endswith(":" + tag)]
        if len(names) > 1:
            raise NotFound(
                f"{self.name} has the tag {show(tag)} in {len(names)} repositories",
                hint=f"name one of them: {self.name}:{names[0]}",
            )
        return names[0] if names else tag

    def referrers(self, digest: str, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests of `index.json` whose `subject` is `digest`, by digest.

        Raises:
            FormatError: a document of the bundle is not valid.
            IntegrityError: a manifest is damaged.
        """
        if self._subjects is None:
            # Read once for all: a bundle of many references is asked for those of each of its manifests.
            subjects: dict[str, dict[str, Descriptor]] = defaultdict(dict)
            for entry in self.entries:
                if self._blob(entry["digest"]) is not None:
                    subject, found = self._with_subject(entry["digest"])
                    subjects[subject or ""][found.digest] = found
            self._subjects = subjects
        listed = self._subjects.get(digest, {})
        return [found for _, found in sorted(listed.items()) if artifact_type in (None, found.artifact_type)]

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """Not possible: a bundle is written once.

        Raises:
            StoreError: always.
        """
        raise self._refused()

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Not possible: a bundle is written once.

        Raises:
            StoreError: always.
        """
        raise self._refused()

    def _refused(self) -> StoreError:
        return StoreError(f"{self.name} is in volumes, and cannot be added to", hint="push to another file")


class Named(VerifiedStore):
    """What a layout holds of one repository, under the tags that it has there.

    Args:
        layout: The layout, which whoever opened it closes.
        repository: `HOST/REPOSITORY`, or empty for tags that stand in the layout as they are.
        elsewhere: Gives a store that has a blob which the layout lacks, if there is one.
    """

    def __init__(
        self,
        layout: ImageLayout,
        repository: str,
        elsewhere: Callable[[Descriptor], Store | None] = lambda _: None,
    ) -> None:
        self.name = f"{layout.name}:{repository}" if repository else layout.name
        self.limits = layout.limits
        self.layout = layout
        self._prefix = f"{repository}:" if repository else ""
        self._elsewhere = elsewhere

    @property
    def capabilities(self) -> Capabilities:
        """Those of the layout: its blobs serve all repositories."""
        return self.layout.capabilities

    def _whole(self, version: str) -> str:
        return version if version.startswith("sha256:") else self._prefix + version

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        return self.layout._read_manifest(self._whole(version))

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        if not self.layout.has_blob(descriptor) and (other := self._elsewhere(descriptor)):
            return other.resume_blob(descriptor, offset)
        return self.layout._open_blob(descriptor, offset)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the layout holds the blob, for whichever repository."""
        return self.layout.has_blob(descriptor)

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        """See `Store.push_blob`."""
        self.layout.push_blob(descriptor, content, on_bytes)

    def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest under a tag of this repository, or by digest alone."""
        return self.layout.push_manifest(data, media_type, None if tag is None else self._whole(tag))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """See `Store.batch`."""
        with self.layout.batch():
            yield

    def tags(self) -> Sequence[str]:
        """Every tag of this repository, sorted."""
        return [tag[len(self._prefix) :] for tag in self.layout.tags() if tag.startswith(self._prefix)]

    def referrers(self, digest: str, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests of the layout whose `subject` is `digest`, of whichever repository."""
        return self.layout.referrers(digest, artifact_type)


def open_bundle(path: Path, limits: Limits = DEFAULT_LIMITS) -> Store:
    """What `oci-archive:PATH` names, for reading.

    Args:
        path: A file; what one would be called that is there in volumes; or `FILE:HOST/REPOSITORY`, of such a file.
        limits: See `ocibridge.settings.Limits`.

    Raises:
        OcibridgeError: see `BundleStore`.
    """
    text = str(path)
    at = -1 if is_there(path) else text.find(":")
    while at > 0:
        if is_there(Path(text[:at])) and _is_repository(text[at + 1 :]):
            return Named(BundleStore(text[:at], limits), text[at + 1 :])
        at = text.find(":", at + 1)
    return BundleStore(path, limits)


def _is_repository(text: str) -> bool:
    try:
        parsed = parse_reference(text)
    except InvalidReference:
        return False
    return isinstance(parsed, RegistryReference) and parsed.tag is None and parsed.digest is None
