# SPDX-License-Identifier: Apache-2.0
"""A new MLSteam archive from a model that never was one."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from ...errors import FormatError, LimitError, SourceError, reading
from ...io.content import BytesContent, FileContent, read_all
from ...io.incoming import IncomingFile, check_size
from ...io.readers import Reader, chunks
from ...io.staging import Staging
from ...model import ModelInfo
from ...paths import check_collisions, check_path, show
from ..base import Sink, StoredModel
from ..foldersink import check_stored
from ..zip import MemberRecord, ZipWriter
from .encrypted import KEY_SUFFIX
from .manifest import FRAMEWORKS, MANIFEST, parse_manifest, synthesise
from .options import MlsteamWriteOptions

LOADER = "hooks/load.py"
"""The file that the SDK calls to load a model."""

_FOLDERS = ("models", "hooks", "src")
_UNSAFE = re.compile(r"[^\w.+-]+")
_COMPILED = ("__pycache__", ".pyc", ".pyo")
_SHOWN = 5
_UNLOADABLE = "the MLSteam SDK can import it, but not load it; supply hooks with --hooks FOLDER"
_HAVE_WORDS = frozenset(("name", "version", "description"))


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks that a user gives.

    Attributes:
        files: Their bytes, by name in the archive, such as `hooks/load.py`.
        ignored: What else is in the folder; compiled Python is not worth a word.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def read_hooks(folder: Path, limit: int) -> Hooks:
    """Read the Python files directly in a folder; they are bytes here, and are never imported or compiled.

    Args:
        folder: The folder.
        limit: Largest size of one file accepted, in bytes.

    Raises:
        SourceError: there is no such folder, or it cannot be read.
        FormatError: a Python file has an unsafe name, or is no regular file.
        LimitError: a file has more than `limit` bytes.
    """
    with reading(folder):
        if not folder.is_dir():
            raise SourceError(f"there is no folder {folder} to take hooks from", hint="check what --hooks names")
    files: dict[str, bytes] = {}
    ignored = []
    with reading(folder), os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        link, regular = entry.is_symlink(), entry.is_file(follow_symlinks=False)
        if not entry.name.endswith(".py") or entry.name.startswith(".") or entry.is_dir(follow_symlinks=False):
            if not entry.name.endswith(_COMPILED):
                ignored.append(entry.name)
            continue
        name = check_path(f"hooks/{entry.name}", str(folder))
        if link or not regular:
            raise FormatError(
                f"{folder}: {show(entry.name)} is {'a symbolic link' if link else 'no regular file'}, and no hook",
                hint="put the file itself into the folder",
            )
        content = FileContent(folder / entry.name)
        if content.size > limit:
            raise LimitError(
                f"{folder}: {show(entry.name)} has {content.size} bytes, more than the {limit} accepted of a hook"
            )
        files[name] = read_all(content)
    return Hooks(files, tuple(ignored))


class NewArchiveSink(Sink):
    """Writes a new archive: manifest.json, then `models/`, `hooks/`, `src/`.

    A model that brings its own manifest.json keeps its paths. For any other one a manifest of v2024.1 is made, and
    files outside of the three folders move into `models/<name of the model>/`. Members lie in the order in which they
    arrive, hooks of the user last, and the directory lists them in order.

    Args:
        dest: The file; what exists there is replaced only as `options.rules` say.
        stored: What will arrive, as far as is known.
        options: `zip_method` may be `stored` or `deflate`, the two that the MLSteam SDK reads; for `hooks` see
            `read_hooks`.

    Raises:
        FormatError: `stored` has names or links that cannot be written, or a hook that the user gives too, or the hooks
            lack load.py.
        SourceError: the hooks cannot be read.
        LimitError: a hook is too large.
        DestinationError: `dest` exists, or cannot be written.
    """

    def __init__(self, dest: Path, stored: StoredModel, options: MlsteamWriteOptions) -> None:
        self._owner = str(dest)
        check_stored(stored, self._owner)
        self._method = options.zip_method
        self._limit = options.limits.metadata
        name = stored.info.name or stored.info.title or dest.stem
        self._submodel = _UNSAFE.sub("-", name)[:100].strip("-.") or "model"
        self._own_manifest = any(file.path == MANIFEST for file in stored.files)
        self._names: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._entries: dict[str, MemberRecord] = {}
        members = [self._place(file.path) for file in stored.files]
        hooks = Hooks()
        if options.hooks is not None:
            hooks = read_hooks(Path(options.hooks), self._limit)
            if LOADER not in hooks.files and LOADER not in members:
                raise FormatError(
                    f"{options.hooks} has no load.py, which the MLSteam SDK calls to load a model",
                    hint="write one with a function load(env, **kwargs), or name another folder with --hooks",
                )
        self._hooks = hooks.files
        for name in members:
            self._refuse_double(name)
        check_collisions([*members, *self._hooks, *(() if self._own_manifest else (MANIFEST,))], self._owner)
        self.losses = tuple(_losses(stored, {*members, *self._hooks}, self._own_manifest))
        if hooks.ignored:
            self.losses += (
                f"{_some(hooks.ignored)} of {options.hooks} is left out: hooks are the *.py files directly in it",
            )
        self._staging = Staging(dest, suffix=".part", rules=options.rules)
        self._zip = ZipWriter(self._staging.temp, label=self._owner)
        if not self._own_manifest:
            data = synthesise(stored.info, self._submodel)
            self._append(MANIFEST, IncomingFile(MANIFEST, len(data), BytesContent(data).open()), len(data))

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        check_path(path, self._owner)
        if path in self._names:
            raise FormatError(f"{self._owner}: the file {show(path)} arrives twice", hint="publish the model again")
        if path.lower().endswith(KEY_SUFFIX):
            raise FormatError(
                f"{self._owner}: {show(path)} is a key file, which has no place in an archive",
                hint="publish the model without it",
            )
        if path == MANIFEST:
            reader = self._manifest(size, reader).open()
        name = self._place(path)
        self._refuse_double(name)
        self._append(name, IncomingFile(path, size, reader, sha256), size)
        self._names[path] = name

    def commit(self) -> str:
        """Write the hooks and the directory, and rename; the identity of the new archive."""
        check_collisions([*self._entries, *self._hooks], self._owner)
        if MANIFEST not in self._entries:
            raise FormatError(f"{self._owner}: {MANIFEST} did not arrive", hint="publish the model again")
        for name, data in self._hooks.items():
            self._append(name, IncomingFile(name, len(data), BytesContent(data).open()), len(data))
        names = sorted(self._entries, key=_member_order)
        self._zip.finish([self._entries[name] for name in names])
        self._zip.close()
        lines = "".join(f"{name}={self._hashes[name]}\n" for name in names)
        identity = "mlarchive:" + hashlib.sha256(lines.encode()).hexdigest()
        self._staging.publish_file(identity)
        return identity

    def abort(self) -> None:
        """Remove the temporary file."""
        self._zip.close()
        self._staging.discard()

    def _append(self, name: str, incoming: IncomingFile, size: int) -> None:
        self._entries[name] = self._zip.append(name, size, incoming, self._method)
        self._hashes[name] = incoming.sha256

    def _place(self, path: str) -> str:
        if self._own_manifest or (path.split("/")[0] in _FOLDERS and "/" in path):
            return path
        return f"models/{self._submodel}/{path}"

    def _refuse_double(self, name: str) -> None:
        if name in self._hooks:
            raise FormatError(
                f"{self._owner}: the model has a file {show(name)} of its own, and the hooks given have one too",
                hint="leave that file out of the folder of --hooks",
            )

    def _manifest(self, size: int, reader: Reader) -> BytesContent:
        """A manifest.json that the model brings along; it was announced, or a name of the model's own."""
        if not self._own_manifest:
            raise FormatError(
                f"{self._owner}: the artifact has a {MANIFEST} that it did not announce", hint="pull it as a folder"
            )
        if size > self._limit:
            raise LimitError(f"{self._owner}: {MANIFEST} has {size} bytes, more than the {self._limit} accepted")
        data = b"".join(bytes(chunk) for chunk in chunks(reader))
        check_size(MANIFEST, len(data), size)
        parse_manifest(data, self._owner, self._limit)
        return BytesContent(data)


def _member_order(name: str) -> tuple[int, bytes]:
    top = name.split("/")[0]
    return (0 if name == MANIFEST else 1 + _FOLDERS.index(top) if top in _FOLDERS else 4), name.encode()


def _losses(stored: StoredModel, members: Iterable[str], own_manifest: bool) -> Iterator[str]:
    """Facts of `stored` that a new archive cannot express; a manifest of the model's own may name another loader."""
    if LOADER not in members and not own_manifest:
        unless = "" if stored.complete else ", unless a layer without a listing brings it"
        yield f"the archive has no {LOADER}{unless}: {_UNLOADABLE}"
    facts = [f"{word} {show(text)}" for word, text in _facts(stored.info)]
    if facts:
        yield f"the manifest of an MLSteam archive has no word for these facts, they are not kept: {', '.join(facts)}"
    links = [file.path for file in stored.files if file.symlink is not None]
    if links:
        yield f"an MLSteam archive has no symbolic links, the bytes are written instead: {_some(links)}"
    if stored.identity:
        yield f"the identity of the source ({show(stored.identity)[1:-1]}) is not kept: the archive has its own"


def _facts(info: ModelInfo) -> Iterator[tuple[str, str]]:
    """Name and text of each fact that a manifest does not have after `synthesise`."""
    stand_ins = {"title": info.name, "revision": info.version}
    for each in fields(info):
        value = getattr(info, each.name)
        if not value or each.name in _HAVE_WORDS or (each.name == "format" and value in FRAMEWORKS):
            continue
        if each.name in stand_ins and stand_ins[each.name] in (None, "", value):
            continue
        yield each.name.replace("_", " "), ", ".join(value) if isinstance(value, tuple) else str(value)


def _some(names: Iterable[str]) -> str:
    """The first few of `names`, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(map(show, found[:_SHOWN])) + more
