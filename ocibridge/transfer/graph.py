# SPDX-License-Identifier: Apache-2.0
"""Manifests of every kind, as nodes of the graph that a copy follows.

Bytes are never written again: what a node says is read, and its bytes are stored as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ..errors import FormatError, LimitError, NotFound
from ..oci import MEDIA_TYPE_DOCKER_INDEX, MEDIA_TYPE_INDEX, Descriptor, parse_json
from ..oci.document import first_problem
from ..paths import show
from ..settings import MiB
from ..stores.base import Store

INDEXES = (MEDIA_TYPE_INDEX, MEDIA_TYPE_DOCKER_INDEX)
DEPTH = 8
"""Indexes that may lie within each other."""
NODES = 10_000
"""Manifests below one root."""
NODE_BYTES = 64 * MiB
"""Bytes of the manifests below one root, which are in memory together."""
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+"
_ELSEWHERE = ("application/vnd.docker.image.rootfs.foreign.", "application/vnd.oci.image.layer.nondistributable.")
_ATTESTED = "vnd.docker.reference.digest"
"""Annotation of an attestation in an index: the manifest that it is about."""
_FIELDS = ("mediaType", "digest", "size", "annotations", "platform", "artifactType")


@dataclass(frozen=True, slots=True)
class Node:
    """A manifest or index.

    Attributes:
        descriptor: Its descriptor.
        data: Its bytes.
        blobs: Config and layers, each digest once; without those that a registry does not keep (image-spec, layer.md,
            "Non-Distributable Layers").
        children: The manifests that an index lists, each digest once.
        subject: The manifest that it refers to.
        artifact_type: Its artifact type, or the media type of its config (distribution-spec, "Listing Referrers").
    """

    descriptor: Descriptor
    data: bytes
    blobs: tuple[Descriptor, ...]
    children: tuple[Descriptor, ...]
    subject: Descriptor | None
    artifact_type: str | None

    @property
    def digest(self) -> str:
        """Its digest."""
        return self.descriptor.digest


def fetch_node(store: Store, version: str) -> Node:
    """Fetch a manifest or index and parse it into a node.

    Args:
        store: The repository to read from.
        version: A tag or a digest.

    Raises:
        NotFound: the store has no manifest with this tag or digest.
        FormatError: the document is not a JSON object, uses Docker schema 1, or has an invalid descriptor.
        IntegrityError: the document does not have the requested digest.
        LimitError: the document is larger than `Limits.manifest`.
    """
    descriptor, data = store.fetch_manifest(version)
    return node_of(descriptor, data, f"{store.name}@{descriptor.digest}")


def node_of(descriptor: Descriptor, data: bytes, owner: str) -> Node:
    """Parse a manifest or index, in any form that registries have.

    Args:
        descriptor: Its descriptor.
        data: Its bytes.
        owner: What messages call it.

    Raises:
        FormatError: it has another form, or lists something that cannot be verified.
    """
    document: Any = parse_json(data, owner, len(data))
    if not isinstance(document, dict):
        raise FormatError(f"{owner} is not a manifest (a JSON object)")
    if document.get("schemaVersion") == 1 or descriptor.media_type.startswith(_SCHEMA_1):
        raise FormatError(
            f"{owner} is a manifest of Docker's schema 1, which is no longer in use",
            hint="pull and push it with a current tool, which gives it a manifest of today",
        )
    config = document.get("config")
    listed = _each(document, "layers", owner) + _each(document, "blobs", owner)
    blobs = [each for each in listed if not each.media_type.startswith(_ELSEWHERE)]
    if config is not None:
        blobs.insert(0, _descriptor(config, "config", owner))
    subject = document.get("subject")
    kind = document.get("artifactType") or (config.get("mediaType") if isinstance(config, dict) else None)
    return Node(
        descriptor=descriptor,
        data=data,
        blobs=_unique(blobs),
        children=_unique(_each(document, "manifests", owner)),
        subject=None if subject is None else _descriptor(subject, "subject", owner),
        artifact_type=kind if isinstance(kind, str) else None,
    )


def select_platforms(node: Node, platforms: Sequence[str]) -> tuple[Descriptor, ...]:
    """The children of an index that are wanted.

    Those without a platform always are, and so are attestations about one that is (the index names them by the
    annotation `vnd.docker.reference.digest`).

    Args:
        node: The index.
        platforms: `OS/ARCHITECTURE[/VARIANT]`; none wants all.
    """
    if not platforms:
        return node.children
    chosen = {each.digest for each in node.children if any(_suits(each.platform, one) for one in platforms)}
    return tuple(
        each
        for each in node.children
        if not each.platform or each.digest in chosen or (each.annotations or {}).get(_ATTESTED) in chosen
    )


def check_platforms(node: Node, platforms: Sequence[str]) -> None:
    """Check that an index has something for each of `platforms`; one without any platform is for all.

    Raises:
        NotFound: it has nothing for one of them.
    """
    there = sorted({_name(each.platform) for each in node.children if each.platform})
    for wanted in platforms:
        if there and not any(_suits(each.platform, wanted) for each in node.children):
            raise NotFound(
                f"the index {node.digest} has nothing for the platform {show(wanted)}",
                hint="it has: " + ", ".join(show(each) for each in there[:10]),
            )


class Graph:
    """A root and all that its indexes lead to.

    Args:
        store: Where it is.
        root: The root.
        platforms: See `select_platforms`.
        stop: Says of a child whether what is below it does not matter; it is not read then.

    Attributes:
        nodes: Every manifest that was read, children before the indexes that list them; the root is the last.
        left: Children that were not read because of `stop`.
        missing: Children that the store does not have.

    Raises:
        LimitError: it is deeper or larger than any sensible one.
    """

    def __init__(
        self,
        store: Store,
        root: Node,
        platforms: Sequence[str] = (),
        stop: Callable[[Descriptor], bool] = lambda _: False,
    ) -> None:
        self.nodes: list[Node] = []
        self.left: list[Descriptor] = []
        self.missing: list[Descriptor] = []
        self._store, self._platforms, self._stop = store, platforms, stop
        self._seen = {root.digest}
        self._bytes = 0
        self._add(root, 0)

    def digests(self) -> Iterator[str]:
        """Digests of all manifests that are there."""
        yield from (each.digest for each in self.nodes)
        yield from (each.digest for each in self.left)

    def blobs(self) -> tuple[Descriptor, ...]:
        """All blobs, each digest once."""
        return _unique([blob for node in self.nodes for blob in node.blobs])

    def _add(self, node: Node, depth: int) -> None:
        self._bytes += len(node.data)
        self._check(depth)
        for child in select_platforms(node, self._platforms):
            if child.digest in self._seen:
                continue
            self._seen.add(child.digest)
            self._check(depth)
            if self._stop(child):
                self.left.append(child)
                continue
            try:
                found = fetch_node(self._store, child.digest)
            except NotFound:
                self.missing.append(child)
                continue
            self._add(found, depth + 1)
        self.nodes.append(node)

    def _check(self, depth: int) -> None:
        if depth > DEPTH or len(self._seen) > NODES or self._bytes > NODE_BYTES:
            raise LimitError(
                f"{self._store.name}: below one index lie more manifests than can be sensible",
                hint="copy the manifests that you need by their digests",
            )


def _each(document: dict[str, Any], key: str, owner: str) -> list[Descriptor]:
    values = document.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise FormatError(f"{owner}: '{key}' is not a list")
    return [_descriptor(value, f"{key}.{number}", owner) for number, value in enumerate(values)]


def _descriptor(value: Any, where: str, owner: str) -> Descriptor:
    # Fields that no copy needs are not looked at: other tools have put strange things there.
    if isinstance(value, dict):
        value = {key: value[key] for key in _FIELDS if value.get(key) is not None}
    try:
        return Descriptor.model_validate(value, strict=True)
    except ValidationError as exc:
        raise FormatError(
            f"{owner}: {where} is no descriptor that can be verified ({first_problem(exc)})",
            hint="only sha256 digests are understood",
        ) from None


def _unique(descriptors: Sequence[Descriptor]) -> tuple[Descriptor, ...]:
    found: dict[str, Descriptor] = {}
    for each in descriptors:
        found.setdefault(each.digest, each)
    return tuple(found.values())


def _suits(platform: dict[str, Any] | None, wanted: str) -> bool:
    if not platform:
        return False
    system, _, rest = wanted.partition("/")
    architecture, _, variant = rest.partition("/")
    if (platform.get("os"), platform.get("architecture")) != (system, architecture):
        return False
    # containerd, platforms.Normalize: 64-bit ARM is version 8 by default.
    own = platform.get("variant") or ("v8" if architecture == "arm64" else "")
    return not variant or own == variant


def _name(platform: dict[str, Any] | None) -> str:
    found = platform or {}
    return "/".join(str(found[key]) for key in ("os", "architecture", "variant") if found.get(key))
