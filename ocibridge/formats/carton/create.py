# SPDX-License-Identifier: Apache-2.0
"""A new carton from a model that never was one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ...errors import FormatError, IntegrityError, LimitError, UsageError
from ...io.content import BytesContent, Content
from ...io.readers import Reader
from ...model import FileEntry, ModelInfo, Role, StoredModel
from ...paths import show
from ..base import Sink
from ..foldersink import check_stored
from .names import CARTON_TOML, INDEX_TOML, MANIFEST
from .options import CartonWriteOptions
from .toml import REQUIREMENT
from .writer import CartonFolderSink, CartonZipSink

_MODEL = "model/"
_INDEX = b"tensor = []\n"
_ROW = len("=") + 64 + len("\n")
_COMPAT_MAX = 2**63 - 1  # the largest integer in TOML
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_HAVE_WORDS = frozenset(("name", "title", "description", "licenses", "doc_url", "source_url"))


@dataclass(frozen=True, slots=True)
class Runner:
    """The program that runs a carton (seed 000, "carton.toml", `[runner]`).

    Attributes:
        name: `runner_name`, such as `torchscript`.
        framework_version: `required_framework_version`, a semver requirement such as `=1.12.1`.
        compat_version: `runner_compat_version`, the version of the layout of `model/` that the runner understands.
    """

    name: str
    framework_version: str
    compat_version: int = 1


class NewCartonSink(Sink):
    """Writes a new carton: the files of a model under `model/`, and carton.toml, an empty tensor index and MANIFEST.

    All three are made from `stored`, the runner and the bytes that arrive, so the same model and runner always give
    the same carton. All sizes are known in advance; the carton is written as any other is.

    Args:
        dest: The file or folder; what exists there is replaced only as `options.rules` say.
        stored: What will arrive; it has to be complete, and no carton.
        options: The runner is needed; `packed` (here, None counts as false) decides between archive and folder.

    Raises:
        FormatError: `stored` is incomplete or a carton, or has names or links that cannot be written.
        LimitError: MANIFEST or carton.toml would be larger than readers accept.
        DestinationError: `dest` exists, or cannot be written.
        UsageError: the runner is missing or cannot be written, or there is no such zip method.
    """

    def __init__(self, dest: Path, stored: StoredModel, options: CartonWriteOptions) -> None:
        self._owner = str(dest)
        if options.runner_name is None or options.framework_version is None:
            raise UsageError(f"cannot write {dest}: a new carton needs a runner", hint="name it with --runner-name")
        runner = Runner(options.runner_name, options.framework_version, options.runner_compat_version)
        _check_runner(runner)
        _check_source(stored, self._owner)
        self._toml = carton_toml(stored.info, runner)
        self._expected = frozenset(_MODEL + file.path for file in stored.files)
        derived = _derive(stored, len(self._toml))
        for file in derived.files:
            if file.path in (CARTON_TOML, MANIFEST) and (file.size or 0) > options.limits.metadata:
                raise LimitError(
                    f"{self._owner}: {file.path} would have {file.size} bytes, "
                    f"more than the {options.limits.metadata} accepted"
                )
        self.losses = tuple(_losses(stored, runner))
        self._inner = (CartonZipSink if options.packed else CartonFolderSink)(dest, derived, options)
        self.parallel = self._inner.parallel
        self.journal = self._inner.journal

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        """Take one file; see `Sink.write`."""
        if _MODEL + path not in self._expected:
            raise IntegrityError(
                f"{self._owner}: the file {show(path)} is not what the artifact announced",
                hint="the artifact is damaged; publish the model again",
            )
        self._inner.write(_MODEL + path, size, reader, sha256)

    def has(self, path: str, size: int, sha256: str) -> bool:
        """Return whether the target has the file; see `Sink.has`."""
        return self._inner.has(_MODEL + path, size, sha256)

    def resume_file(self, path: str, size: int, whole: bool) -> Content | None:
        """Take over the start of a file; see `Sink.resume_file`."""
        return self._inner.resume_file(_MODEL + path, size, whole)

    def discard(self, paths: Sequence[str]) -> None:
        """Let files arrive again; see `Sink.discard`."""
        self._inner.discard([_MODEL + path for path in paths])

    def commit(self) -> str | None:
        """Write the other files of a carton, give it its final name, and return its identity."""
        missing = self._expected - self._inner.hashes.keys()
        if missing:
            raise IntegrityError(
                f"{self._owner}: the file {show(min(missing)[len(_MODEL) :])} did not arrive",
                hint="the artifact is damaged or incomplete; publish the model again",
            )
        self._add(CARTON_TOML, self._toml)
        self._add(INDEX_TOML, _INDEX)
        hashes = self._inner.hashes
        self._add(MANIFEST, "".join(f"{path}={hashes[path]}\n" for path in sorted(hashes)).encode())
        identity = self._inner.commit()
        self.changes = self._inner.changes
        return identity

    def pause(self) -> None:
        """Keep what has arrived."""
        self._inner.pause()

    def abort(self) -> None:
        """Remove what was written."""
        self._inner.abort()

    def _add(self, path: str, data: bytes) -> None:
        with BytesContent(data).open() as reader:
            self._inner.write(path, len(data), reader)


def carton_toml(info: ModelInfo, runner: Runner) -> bytes:
    """The `carton.toml` of a new carton: the facts that the carton client knows, and the runner.

    Args:
        info: What is known about the model.
        runner: What runs it.
    """
    texts = {
        "model_name": info.name or info.title,
        "model_description": info.description,
        "license": info.licenses[0] if len(info.licenses) == 1 else None,
        "repository": info.source_url,
        "homepage": info.doc_url,
    }
    lines = ["spec_version = 1", *(f"{key} = {toml_string(text)}" for key, text in texts.items() if text)]
    lines += [
        "",
        "[runner]",
        f"runner_name = {toml_string(runner.name)}",
        f"required_framework_version = {toml_string(runner.framework_version)}",
        f"runner_compat_version = {runner.compat_version}",
        "",
    ]
    return "\n".join(lines).encode()


def toml_string(text: str) -> str:
    """`text` as a basic string of TOML on one line; what is no valid Unicode becomes a question mark."""
    valid = text.encode(errors="replace").decode()
    return f'"{_SPECIAL.sub(_escape, valid)}"'


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    return _ESCAPES.get(found) or f"\\u{ord(found):04X}"


def _derive(stored: StoredModel, toml_size: int) -> StoredModel:
    """The carton that `stored` becomes, with every size."""
    files = [
        FileEntry(CARTON_TOML, Role.WEIGHT_CONFIG, toml_size),
        FileEntry(INDEX_TOML, Role.DATASET, len(_INDEX)),
        # Both ends of a link move together, so its text stays right.
        *(FileEntry(_MODEL + file.path, file.role, file.size, file.sha256, file.symlink) for file in stored.files),
    ]
    manifest_size = sum(len(file.path.encode()) + _ROW for file in files)
    files.append(FileEntry(MANIFEST, Role.WEIGHT_CONFIG, manifest_size))
    return StoredModel(format="carton", files=tuple(files), complete=True, info=stored.info)


def _check_source(stored: StoredModel, owner: str) -> None:
    if stored.format == "carton" or any(file.path == MANIFEST for file in stored.files):
        raise FormatError(
            f"cannot make a new carton {owner}: the model is one already, or has a file named {MANIFEST}",
            hint="leave out the runner",
        )
    if not stored.complete:
        raise FormatError(
            f"cannot make the carton {owner}: the artifact does not list its files, and a carton starts with them",
            hint="name a folder as the target, and make the carton of that",
        )
    # Before the files move: a link must not get out of what will be model/.
    check_stored(stored, owner)


def _check_runner(runner: Runner) -> None:
    for what, text in (("name of the runner", runner.name), ("framework version", runner.framework_version)):
        if not text.strip() or not text.isprintable():
            raise UsageError(
                f"the {what} is {show(text)}, which is empty or cannot be printed",
                hint="give one such as --runner-name torchscript --framework-version =1.12.1",
            )
    if not REQUIREMENT.fullmatch(runner.framework_version):
        raise UsageError(
            f"the framework version {show(runner.framework_version)} is no requirement the carton client can parse",
            hint="give one such as --framework-version '=1.12.1' or '>=1.12, <2'",
        )
    if not 0 <= runner.compat_version <= _COMPAT_MAX:
        raise UsageError(
            f"the compat version of the runner is {runner.compat_version}, not a number from 0 to {_COMPAT_MAX}"
        )


def _losses(stored: StoredModel, runner: Runner) -> list[str]:
    info = stored.info
    found = []
    if info.name and info.title and info.title != info.name:
        found.append(_loss("title", info.title))
    if len(info.licenses) > 1:
        licences = ", ".join(map(show, info.licenses))
        found.append(f"the licenses {licences} are not stored: carton.toml holds one only")
    for field in fields(info):
        value = getattr(info, field.name)
        if field.name in _HAVE_WORDS or not value or (field.name == "format" and value == runner.name):
            continue
        found.append(_loss(field.name.replace("_", " "), ", ".join(value) if isinstance(value, tuple) else str(value)))
    if stored.identity:
        found.append(f"the identity of the source ({show(stored.identity)[1:-1]}) is not kept: the carton has its own")
    return found


def _loss(word: str, value: str) -> str:
    verb = "are" if word == "authors" else "is"
    return f"the {word} {show(value)} {verb} not stored: carton.toml has no word for it"
