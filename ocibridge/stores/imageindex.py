# SPDX-License-Identifier: Apache-2.0
"""The `index.json` of layout folders and archives (image-spec, image-layout.md)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from ..errors import FormatError, IntegrityError, LimitError, NotFound
from ..io.content import Content, read_all
from ..io.readers import Reader
from ..oci import (
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Descriptor,
    canonical_json,
    parse_digest,
    parse_json,
    sha256_digest,
)
from ..oci.document import first_problem
from ..oci.manifest import ANNOTATION_REF_NAME
from ..paths import show
from ..settings import Limits
from .missing import MANIFEST_UNKNOWN, some_tags
from .verified import VerifiedStore

OCI_LAYOUT = "oci-layout"
INDEX = "index.json"
BLOBS = "blobs/sha256"
LAYOUT_FILE = b'{"imageLayoutVersion":"1.0.0"}'

Entry = dict[str, Any]
_GO_ORDER = ("mediaType", "digest", "size", "urls", "annotations", "data", "platform", "artifactType")


class ImageIndex:
    """An `index.json`, immutable; fields that are not known here are stored along.

    Args:
        document: The parsed document, checked by `parse`.
    """

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        self._document = document or {"schemaVersion": 2, "mediaType": MEDIA_TYPE_INDEX, "manifests": []}
        self.entries: list[Entry] = self._document["manifests"]

    @staticmethod
    def of(entries: Sequence[Entry]) -> ImageIndex:
        """An index of these entries, in their order."""
        return ImageIndex({"schemaVersion": 2, "mediaType": MEDIA_TYPE_INDEX, "manifests": list(entries)})

    @staticmethod
    def parse(data: bytes, owner: str, limits: Limits) -> ImageIndex:
        """Read an `index.json` from outside.

        Raises:
            FormatError: it is no image index (image-spec, image-index.md).
            LimitError: it is larger than `limits.metadata`.
        """
        document = parse_json(data, owner, limits.metadata)
        if not isinstance(document, dict) or document.get("schemaVersion") != 2:
            raise FormatError(f"{owner} is not an image index (schemaVersion 2)")
        entries = document.get("manifests")
        if not isinstance(entries, list):
            raise FormatError(f"{owner} has no list 'manifests'")
        for entry in entries:
            if not (
                isinstance(entry, dict)
                and isinstance(entry.get("mediaType"), str)
                and isinstance(entry.get("digest"), str)
                and isinstance(entry.get("size"), int)
                and isinstance(entry.get("annotations") or {}, dict)
            ):
                raise FormatError(f"{owner} lists a manifest without a proper mediaType, digest or size")
        return ImageIndex(document)

    def tags(self) -> list[str]:
        """Every tag, sorted."""
        return sorted({tag for entry in self.entries if (tag := _tag(entry)) is not None})

    def find(self, version: str, owner: str) -> Entry | None:
        """The entry of a tag, or any entry of a digest.

        Raises:
            FormatError: the tag stands at several digests.
        """
        key = _digest if version.startswith("sha256:") else _tag
        found = {entry["digest"]: entry for entry in self.entries if key(entry) == version}
        if len(found) > 1:
            raise FormatError(
                f"{owner} has the tag {show(version)} at {len(found)} manifests",
                hint="name the one you mean by its digest: " + ", ".join(show(digest) for digest in sorted(found)[:5]),
            )
        return next(iter(found.values()), None)

    def with_entry(self, entry: Entry, tag: str | None) -> ImageIndex:
        """This index with a manifest added, under `tag` or, where its digest is not there yet, without one.

        A manifest that had the tag before stays, without it.
        """
        kept: list[Entry] = []
        untagged: list[Entry] = [] if tag is not None else [entry]
        for old in self.entries:
            if tag is not None and old["digest"] == entry["digest"] and _tag(old) in (None, tag):
                entry = {**old, **entry}
            elif tag is not None and _tag(old) == tag:
                untagged.append(_with_tag(old, None))
            else:
                kept.append(old)
        if tag is not None:
            kept.append(_with_tag(entry, tag))
        for each in untagged:
            if all(each["digest"] != other["digest"] for other in kept):
                kept.append(each)
        kept.sort(key=lambda each: (_tag(each) is None, _tag(each) or "", each["digest"]))
        return ImageIndex({**self._document, "manifests": kept})

    def without(self, version: str) -> ImageIndex:
        """This index without a tag, or without any entry of a digest; a manifest that loses its tag is not listed."""
        key = _digest if version.startswith("sha256:") else _tag
        return ImageIndex({**self._document, "manifests": [each for each in self.entries if key(each) != version]})

    def to_json(self, owner: str) -> bytes:
        """The document as `canonical_json`.

        Raises:
            FormatError: it was read from outside with strings or numbers in it that cannot be written.
        """
        try:
            return canonical_json(self._document)
        except (ValueError, RecursionError):
            raise FormatError(f"{owner} has strings or numbers in it that cannot be written again") from None


def _tag(entry: Entry) -> str | None:
    tag = (entry.get("annotations") or {}).get(ANNOTATION_REF_NAME)
    return tag if isinstance(tag, str) else None


def _digest(entry: Entry) -> str:
    return str(entry["digest"])


def _with_tag(entry: Entry, tag: str | None) -> Entry:
    annotations = {**(entry.get("annotations") or {}), ANNOTATION_REF_NAME: tag}
    if tag is None:
        del annotations[ANNOTATION_REF_NAME]
    fields = {**entry, "annotations": dict(sorted(annotations.items()))}
    if not annotations:
        del fields["annotations"]
    known = [key for key in _GO_ORDER if key in fields]
    return {key: fields[key] for key in [*known, *(key for key in fields if key not in known)]}


class ImageLayout(VerifiedStore):
    """An image layout, wherever its files are.

    A tag is looked up as it stands in the annotation `org.opencontainers.image.ref.name`; a manifest without one is
    found by digest only. A digest may be that of any blob that is a manifest, listed in `index.json` or not.
    """

    _listed: tuple[ImageIndex | None, dict[str, list[Descriptor]]] = (None, {})
    """The index that was last asked for referrers, and the referrers by subject."""

    @cached_property
    def _read(self) -> dict[str, tuple[str | None, Descriptor]]:
        """See `_with_subject`, by digest; it never changes."""
        return {}

    @abstractmethod
    def _index(self) -> ImageIndex:
        """The index as it is now."""

    @abstractmethod
    def _blob(self, digest: str) -> Content | None:
        """A blob that is a regular file, or None."""

    def tags(self) -> Sequence[str]:
        """Every tag, sorted.

        Raises:
            FormatError: `index.json` is not valid.
        """
        return self._index().tags()

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether there is a blob of this digest and size; its bytes are not read."""
        content = self._blob(descriptor.digest)
        return content is not None and content.size == descriptor.size

    def referrers(self, digest: str, artifact_type: str | None = None) -> Sequence[Descriptor]:
        """Manifests of `index.json` whose `subject` is `digest` (distribution-spec, "Listing Referrers").

        Raises:
            FormatError: a document of the layout is not valid.
            IntegrityError: a manifest is damaged.
        """
        index = self._index()
        if self._listed[0] is not index:
            self._listed = index, self._by_subject(index)
        return [each for each in self._listed[1].get(digest, ()) if artifact_type in (None, each.artifact_type)]

    def _by_subject(self, index: ImageIndex) -> dict[str, list[Descriptor]]:
        found: dict[str, list[Descriptor]] = {}
        for digest, entry in {entry["digest"]: entry for entry in index.entries}.items():
            if digest not in self._read and entry["mediaType"] in (MEDIA_TYPE_MANIFEST, MEDIA_TYPE_INDEX):
                own = _descriptor(entry, self.name)
                if self.has_blob(own):  # image-layout.md, "Blobs": a layout may lack blobs that are kept elsewhere.
                    self._read[digest] = self._with_subject(own.digest)
            subject, descriptor = self._read.get(digest, (None, None))
            if subject and descriptor:
                found.setdefault(subject, []).append(descriptor)
        return found

    def _with_subject(self, digest: str) -> tuple[str | None, Descriptor]:
        """The subject of a manifest, if it has one, and the manifest as one of its referrers."""
        descriptor, data = self.fetch_manifest(digest)
        document = parse_json(data, f"the manifest {digest}", self.limits.manifest)
        subject = _field(document, "subject", "digest") if isinstance(document, dict) else None
        if subject is None:
            return None, descriptor
        return subject, descriptor.model_copy(
            update={
                "artifact_type": artifact_type_of(document) or _field(document, "config", "mediaType"),
                "annotations": _strings(document.get("annotations")),
            }
        )

    def _delisted(self, version: str) -> ImageIndex:
        """The index without a tag or digest.

        Raises:
            NotFound: it has none.
        """
        index = self._index()
        if index.find(version, self.name) is None:
            raise NotFound(f"{self.name} has no {show(version)}", hint=_what_is_there(index))
        return index.without(version)

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        index = self._index()
        entry = index.find(version, self.name)
        if entry is None and not version.startswith("sha256:"):
            raise NotFound(f"{self.name} has no tag {show(version)}", hint=_what_is_there(index), code=MANIFEST_UNKNOWN)
        digest = version if entry is None else _descriptor(entry, self.name).digest
        content = self._blob(parse_digest(digest, self.name))
        if content is None:
            raise NotFound(f"{self.name} has no manifest {digest}", hint=_what_is_there(index))
        if content.size > self.limits.manifest:
            raise LimitError(
                f"{self.name}: the manifest {digest} has {content.size} bytes, more than {self.limits.manifest}"
            )
        data = read_all(content)
        if sha256_digest(data) != digest:
            raise IntegrityError(
                f"{self.name} holds other bytes under the digest of the manifest {digest}",
                hint="the layout is damaged; remove that blob and push the model again",
            )
        return data, entry["mediaType"] if entry else None

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        content = self._blob(descriptor.digest)
        if content is None:
            raise NotFound(
                f"{self.name} has no blob {descriptor.digest}", hint="the layout is not complete; push the model again"
            )
        if content.size != descriptor.size:
            raise IntegrityError(
                f"{self.name}: the blob {descriptor.digest} has {content.size} bytes instead of {descriptor.size}",
                hint="the layout is damaged; push the model again",
            )
        return content.open(offset)


def manifest_entry(data: bytes, media_type: str, owner: str, limits: Limits) -> tuple[Descriptor, Entry]:
    """The descriptor of a manifest, and its entry of `index.json` as yet without a tag.

    Raises:
        FormatError: the manifest is no JSON object.
        LimitError: it is larger than `limits.manifest`.
    """
    document = parse_json(data, f"the manifest for {owner}", limits.manifest)
    if not isinstance(document, dict):
        raise FormatError(f"the manifest for {owner} is not a JSON object")
    descriptor = Descriptor.of(data, media_type)
    listed = descriptor.model_copy(update={"artifact_type": artifact_type_of(document)})
    return descriptor, listed.model_dump(mode="json", by_alias=True, exclude_none=True)


def artifact_type_of(document: dict[str, Any]) -> str | None:
    """The `artifactType` of a manifest or index (image-spec, manifest.md)."""
    value = document.get("artifactType")
    return value if isinstance(value, str) and value else None


def _field(document: dict[str, Any], key: str, inner: str) -> str | None:
    outer = document.get(key)
    value = outer.get(inner) if isinstance(outer, dict) else None
    return value if isinstance(value, str) else None


def _strings(value: Any) -> dict[str, str] | None:
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else None


def _descriptor(entry: Entry, owner: str) -> Descriptor:
    try:
        return Descriptor.model_validate({key: entry[key] for key in ("mediaType", "digest", "size")}, strict=True)
    except ValidationError as exc:
        raise FormatError(
            f"{owner} lists a manifest that cannot be verified: {first_problem(exc)}",
            hint="only sha256 digests are understood",
        ) from None


def _what_is_there(index: ImageIndex) -> str:
    if tags := index.tags():
        return some_tags(tags)
    if digests := sorted({show(_digest(entry)) for entry in index.entries}):
        return "it has no tags; name the manifest by its digest: @" + _some(digests)
    return "it is empty"


def _some(names: list[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
