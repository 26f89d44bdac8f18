# SPDX-License-Identifier: Apache-2.0
"""A carton, archive or folder, as a model (seed 000).

Reading checks the structure and the metadata; the bytes of the other files are checked against the sha256 of their
row by whoever reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ...errors import FormatError, IntegrityError, LimitError
from ...io.content import Content, read_all
from ...model import FileEntry, Model, ModelFile
from ...paths import show
from .. import symlinks
from .archive import Entries, list_entries
from .manifest import CartonManifest, parse_manifest
from .names import CARTON_TOML, INDEX_TOML, LINKS, MANIFEST, UNLISTED
from .options import CartonReadOptions
from .roles import role_of
from .toml import index_warnings, parse_carton_toml


def read_carton(path: Path, options: CartonReadOptions) -> Model:
    """Read the carton at `path`.

    The files of the model are the rows of MANIFEST in its order, the files without a row, and MANIFEST itself.

    Raises:
        SourceError: it cannot be read, or a linked file cannot be fetched.
        FormatError: it breaks the rules of the format, or has links that may not be fetched.
        IntegrityError: its metadata does not match MANIFEST.
        LimitError: something is larger than `options.limits`.
    """
    return _Carton(path, options).model()


class _Carton:
    def __init__(self, path: Path, options: CartonReadOptions) -> None:
        self._owner = str(path)
        self._options = options
        self._entries: Entries = list_entries(path, options.limits)
        if MANIFEST not in self._entries.files:
            raise FormatError(f"{self._owner} has no MANIFEST, so it is no carton", hint="pack the model as a carton")
        data = self._small(MANIFEST, self._entries.files[MANIFEST])
        self._manifest: CartonManifest = parse_manifest(data, self._owner, options.limits.metadata)
        self._resolved = symlinks.resolve(self._entries.links, self._entries.files, self._owner)

    def model(self) -> Model:
        rows = self._manifest.rows
        missing = [path for path in rows if path not in self._entries.files and path not in self._entries.links]
        urls = self._urls(missing)
        # Without carton.toml there is nothing to show.
        linked = missing if self._options.linked and not self._options.fetch_links and CARTON_TOML not in urls else []
        fetched = {} if linked else self._fetch(urls)
        files = [self._file(path, fetched.get(path)) for path in rows if fetched or path not in urls]
        extras = sorted({*self._entries.files, *self._entries.links}.difference(rows, UNLISTED))
        files += [self._file(path, None) for path in extras]
        files.append(self._file(MANIFEST, None))
        contents = {file.path: file.content for file in files}
        if CARTON_TOML not in contents:
            raise FormatError(f"{self._owner} has no carton.toml, so it is no carton", hint="pack the model again")
        where = f"{self._owner}: carton.toml"
        data = self._verified(CARTON_TOML, contents[CARTON_TOML])
        toml, problems = parse_carton_toml(data, where, self._options.limits.metadata)
        return Model(
            format="carton",
            files=tuple(files),
            identity=self._manifest.identity,
            info=toml.info(),
            origin={"carton.manifest_hash": self._manifest.sha256, **toml.origin()},
            warnings=(
                *self._entries.warnings,
                *self._manifest.warnings,
                *problems,
                *self._index(contents, linked),
                *self._oddities(extras, linked),
            ),
            linked=tuple(FileEntry(path, role_of(path, 0)[0], None, rows[path]) for path in linked),
        )

    def _file(self, path: str, fetched: Content | None) -> ModelFile:
        target = self._resolved.get(path, path)
        content = fetched or self._entries.files[target]
        rows = self._manifest.rows
        sha256 = self._manifest.sha256 if path == MANIFEST else rows.get(path)
        if path in self._entries.links and sha256 and rows.get(target) != sha256:
            raise FormatError(
                f"{self._owner}: the symbolic link {show(path)} leads to {show(target)}, which has not the sha256 that "
                "MANIFEST gives for the link",
                hint="pack the model again",
            )
        role, guessed = role_of(path, content.size)
        return ModelFile(path, role, content, sha256, self._entries.links.get(path), guessed)

    def _urls(self, missing: list[str]) -> dict[str, list[str]]:
        """The URLs of the files that are not in the carton."""
        if not missing:
            return {}
        from .links import parse_links

        links = None
        if LINKS in self._entries.files:
            data = self._small(LINKS, self._entries.files[LINKS])
            links = parse_links(data, self._owner, self._options.limits.metadata)
        urls = {path: links.of(self._manifest.rows[path]) if links else [] for path in missing}
        for path in missing:
            if not urls[path]:
                raise FormatError(
                    f"{self._owner}: MANIFEST lists {show(path)}, but there is neither such a file nor a link to one",
                    hint="the carton is incomplete; fetch or pack it again",
                )
        return urls

    def _fetch(self, urls: dict[str, list[str]]) -> dict[str, Content]:
        if not urls:
            return {}
        if not self._options.fetch_links:
            from .links import public_url

            path, places = next(iter(urls.items()))
            raise FormatError(
                f"{self._owner}: {show(path)} is not in the carton, only linked from {public_url(places[0])}",
                hint="allow it to be fetched with --fetch-links, or only from one host with --links-host HOST",
            )
        from .fetch import LinkFetcher

        fetcher = LinkFetcher(self._options.links_hosts, self._options.limits)
        return {path: fetcher.fetch(path, self._manifest.rows[path], places) for path, places in urls.items()}

    def _index(self, contents: dict[str, Content], linked: list[str]) -> tuple[str, ...]:
        if INDEX_TOML in linked:
            return ()
        if INDEX_TOML not in contents:
            return (f"{INDEX_TOML} is missing; the carton client panics when it loads such a carton",)
        data = self._verified(INDEX_TOML, contents[INDEX_TOML])
        return index_warnings(data, {*contents, *linked}, self._options.limits.metadata)

    def _oddities(self, extras: list[str], linked: list[str]) -> Iterator[str]:
        for path in extras:
            yield (
                f"{show(path)} is not in MANIFEST; it is stored, and the carton client shows it to the runner, but "
                "the manifest hash does not cover it"
            )
        if not linked and (LINKS in self._entries.files or LINKS in self._entries.links):
            yield "LINKS is not stored: every file is in the artifact itself; the manifest hash stays the same"

    def _verified(self, path: str, content: Content) -> bytes:
        data = self._small(path, content)
        expected = self._manifest.rows.get(path)
        if expected and hashlib.sha256(data).hexdigest() != expected:
            raise IntegrityError(
                f"{self._owner}: {path} has not the sha256 that MANIFEST gives for it", hint="fetch or pack it again"
            )
        return data

    def _small(self, path: str, content: Content) -> bytes:
        limit = self._options.limits.metadata
        if content.size > limit:
            raise LimitError(f"{self._owner}: {path} has {content.size} bytes, more than the {limit} accepted")
        return read_all(content)
