# SPDX-License-Identifier: Apache-2.0
"""Ollama models from stored models, into a models folder that a server may be using.

Everything arrives in a folder of its own next to `blobs/` and `manifests/`, where a server looks at nothing. Blobs that
have been checked move into `blobs/`, and the manifest, which makes them a model, comes last.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ...errors import DestinationError, FormatError, IntegrityError, LimitError, OcibridgeError, writing
from ...io.atomic import AtomicFile
from ...io.content import BytesContent, Content, FileContent
from ...io.existing import Existing, check_file, is_same
from ...io.incoming import IncomingFile, check_size, read_pieces
from ...io.marker import mark_file
from ...io.merge import Changes
from ...io.positioned import append_file, fsync_all, is_large, resumable_file
from ...io.readers import Reader
from ...io.staging import StagingFolder
from ...oci import Descriptor
from ...paths import check_path, show
from ..base import Sink, StoredModel, WriteOptions
from .local import LocalOllama, models_dir
from .manifest import ParsedManifest, parse_ollama_manifest
from .names import OllamaName, parse_ollama_name
from .paths import MANIFEST_PATH
from .reader import FORMAT, identity_of
from .synthesis import Arrived, has_weights, losses, no_weights, synthesise

_DAMAGED = "the artifact is damaged or incomplete; publish the model again"


class OllamaSink(Sink):
    """Writes a model into a models folder, with the manifest that it had, or one made for its GGUF files.

    Args:
        name: `[[HOST/]NAMESPACE/]MODEL[:TAG]`; if the folder has the name in another case, that spelling is kept.
        stored: What will arrive, as far as is known.
        options: `rules` say whether a model of that name may be replaced; `limits` bounds the manifest.
        root: The models folder; None takes `models_dir`.

    Attributes:
        name: The full name of the model.

    Raises:
        InvalidReference: the name breaks the rules.
        FormatError: `stored` is no model that Ollama could run.
        DestinationError: there is another model of that name, or the folder cannot be written.
    """

    parallel = True

    def __init__(
        self, name: str | OllamaName, stored: StoredModel, options: WriteOptions, root: Path | None = None
    ) -> None:
        self._root = (root or models_dir()).absolute()
        self._store = LocalOllama(self._root)
        self.name = self._store.resolve(parse_ollama_name(name) if isinstance(name, str) else name)
        self._stored = stored
        self._options = options
        self._owner = f"the Ollama model {self.name.short}"
        self._manifest: bytes | None = None
        self._files: dict[str, Arrived | None] = {}
        self._blobs: dict[str, Path] = {}
        self._present: set[str] = set()
        self._lock = threading.Lock()
        paths = {file.path for file in stored.files}
        if stored.complete and MANIFEST_PATH not in paths and not has_weights(paths):
            raise no_weights(self._owner)
        if MANIFEST_PATH not in paths and stored.format != FORMAT:
            self.losses = tuple(losses(stored))
        self._there = self._refuse_other(stored.identity if stored.format == FORMAT else None)
        self._kept: dict[str, int] = {}
        with writing(self._root):
            self._made = list(_make_folders(self._root))
        try:
            self._space = StagingFolder(self._root / _file_name(str(self.name)), options.key, label=self._owner)
        except BaseException:
            self._remove_made()
            raise
        self.journal = self._space.journal

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`. Files with the same verified sha256 are stored once."""
        check_path(path, self._owner)
        with self._lock:
            if path in self._files:
                raise FormatError(f"{self._owner}: the file {show(path)} arrives twice", hint=_DAMAGED)
            self._files[path] = None
        try:
            self._files[path] = self._take(path, size, reader, sha256)
        except BaseException:
            # Whoever lost the line may try again.
            del self._files[path]
            raise

    def has(self, path: str, size: int, sha256: str) -> bool:
        """Return whether the store has the blob, with the right bytes; see `Sink.has`."""
        blob = Descriptor(media_type="", digest=f"sha256:{sha256}", size=size)
        if path == MANIFEST_PATH or not self._store.verified(blob):
            return False
        with self._lock:
            if path in self._files:
                return False
            self._files[path] = Arrived(sha256, self._store.blob(blob))
            self._present.add(blob.digest)
        return True

    def resume_file(self, path: str, size: int, whole: bool) -> Content | None:
        """Take over the start of a file; see `Sink.resume_file`."""
        found = resumable_file(self._place(path), path, size, whole, self.journal)
        if found:
            self._kept[path] = found.size
        return found

    def discard(self, paths: Sequence[str]) -> None:
        """Let files arrive again; see `Sink.discard`."""
        with self._lock:
            for path in paths:
                self._kept.pop(path, None)
                arrived = self._files.pop(path, None)
                if arrived:
                    self._blobs.pop(arrived.sha256, None)

    def commit(self) -> str:
        """Check that everything the manifest names is here, move it into place, and write the manifest.

        Returns:
            `ollama:` and the hex sha256 of the manifest.

        Raises:
            IntegrityError: a blob is missing or not what it should be, or the manifest is not the one published.
            FormatError: the manifest is malformed, or cannot be made.
            DestinationError: there is another model of that name by now, or the folder cannot be written.
        """
        manifest = self._manifest
        if manifest is None:
            files = {path: file for path, file in self._files.items() if file}
            manifest = synthesise(files, self._stored.info, self._owner, self._keep)
        parsed = parse_ollama_manifest(manifest, self._owner, self._options.limits.manifest)
        identity = identity_of(manifest)
        if self._stored.format == FORMAT and self._stored.identity not in (None, identity):
            raise IntegrityError(
                f"{self._owner} would be {identity}, but was published as {self._stored.identity}", hint=_DAMAGED
            )
        arrived = self._check(parsed)
        self._there = self._refuse_other(identity)
        self.changes = self._changes(identity)
        with writing(self._root):
            self._publish(arrived, manifest, identity)
        self.abort()
        return identity

    def pause(self) -> None:
        """Keep what has arrived."""
        self._space.pause()
        self._remove_made()

    def abort(self) -> None:
        """Remove the temporary folder, and the models folder if it is new and empty."""
        self._space.discard()
        self._remove_made()

    def _remove_made(self) -> None:
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()

    def _take(self, path: str, size: int, reader: Reader, sha256: str | None) -> Arrived:
        limit = self._options.limits.manifest
        if path == MANIFEST_PATH:
            if size > limit:
                raise LimitError(f"{self._owner}: {path} has {size} bytes, more than the {limit} accepted")
            data = b"".join(bytes(chunk) for chunk in read_pieces(reader, size))
            check_size(path, len(data), size)
            self._manifest = data
            return Arrived(sha256 or hashlib.sha256(data).hexdigest(), BytesContent(data))
        temp = self._place(path)
        file = IncomingFile(path, size, reader, sha256)
        mark = partial(self.journal.mark, path) if self.journal else None
        with writing(self._root):
            kept = self._kept.pop(path, 0)
            append_file(temp, file, kept=kept, mark=mark)
            if not is_large(size):
                fsync_all(self._space.path, [temp])
        return self._arrived(file.sha256, temp)

    def _place(self, path: str) -> Path:
        return self._space.path / _file_name(path)

    def _arrived(self, sha256: str, temp: Path) -> Arrived:
        """Keep a finished file, unless another with the same bytes came first."""
        with self._lock:
            first = self._blobs.setdefault(sha256, temp)
        if first != temp:
            with writing(self._root):
                temp.unlink()
        return Arrived(sha256, FileContent(first))

    def _keep(self, data: bytes) -> Arrived:
        """Store bytes of our own as if they had arrived."""
        return self._take("the config", len(data), BytesContent(data).open(), None)

    def _check(self, manifest: ParsedManifest) -> list[Descriptor]:
        """The blobs of `manifest` that have to move into place; the others are there, and are what they should be."""
        found = []
        for blob in {part.descriptor.digest: part.descriptor for part in manifest.parts}.values():
            temp = self._blobs.get(blob.digest.removeprefix("sha256:"))
            if temp:
                content: Content = FileContent(temp)
                if content.size != blob.size:
                    raise IntegrityError(
                        f"{self._owner}: the blob {blob.digest} has {content.size} bytes, the manifest says "
                        f"{blob.size}",
                        hint=_DAMAGED,
                    )
                found.append(blob)
            elif not self._is_there(blob):
                raise IntegrityError(
                    f"{self._owner}: the blob {blob.digest} of its manifest did not arrive, and is not in "
                    f"{self._root / 'blobs'}",
                    hint=_DAMAGED,
                )
        return found

    def _is_there(self, blob: Descriptor) -> bool:
        """Return whether the store has a blob that did not arrive; what `has` has read is not read again."""
        if blob.digest not in self._present:
            return self._store.verified(blob)
        path = self._store.blob_path(blob.digest)
        return path is not None and path.stat().st_size == blob.size

    def _publish(self, arrived: list[Descriptor], manifest: bytes, identity: str) -> None:
        blobs = self._root / "blobs"
        blobs.mkdir(exist_ok=True)
        for blob in arrived:
            temp = self._blobs[blob.digest.removeprefix("sha256:")]
            # A server that starts removes what is old and belongs to no manifest.
            os.utime(temp)
            temp.chmod(0o644)
            # What is there may be damaged, and Ollama would never notice; these bytes are known to be right.
            temp.replace(blobs / blob.digest.replace(":", "-"))
        if self._changes(identity).kept:
            # Where Ollama wrote it, it stays Ollama's own, which --force leaves alone.
            return
        target = self._store.manifest_path(self.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(target, self._space.path) as file:
            file.write(manifest)
            file.path.chmod(0o644)
            mark_file(file.path, {**self._options.rules.record, "identity": identity})
            if not is_same(self._there, target):
                raise DestinationError(f"cannot write {self._owner}: it was changed meanwhile", hint="run it again")
            file.publish()

    def _changes(self, identity: str) -> Changes:
        """Tell whether the manifest is new, another one, or the one that is there."""
        if self._there is None:
            return Changes(added=1)
        same = identity == identity_of(self._store.manifest(self.name, self._options.limits.manifest))
        return Changes(kept=1) if same else Changes(updated=1)

    def _refuse_other(self, identity: str | None) -> os.stat_result | None:
        """Refuse to replace a model of the same name, unless it is the same model; what there is of it."""
        path, rules = self._store.manifest_path(self.name), self._options.rules
        with suppress(OcibridgeError, OSError):
            if identity == identity_of(self._store.manifest(self.name, self._options.limits.manifest)):
                return path.lstat()
        if rules.existing is Existing.KEEP and os.path.lexists(path):
            raise DestinationError(
                f"there is already an Ollama model {self.name.short} in {self._root}, and it is another one",
                hint="choose another name, or replace it with --overwrite",
            )
        return check_file(path, self._owner, rules)


def _file_name(path: str) -> str:
    """The same temporary name each time, so that it is found again."""
    return hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


def _make_folders(folder: Path) -> Iterator[Path]:
    """Make a folder and those above it; the ones that were missing, the outermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        yield each
