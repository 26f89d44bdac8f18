# SPDX-License-Identifier: Apache-2.0
"""Pack many references, with all their manifests and blobs, into one archive."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..io.content import Content
from ..io.existing import TargetRules
from ..layers.tar import BLOCK
from ..oci import ArchiveReference, Descriptor, Reference, RegistryReference, parse_json, parse_reference
from ..oci.manifest import ANNOTATION_REF_NAME
from ..operations.copy import copy_companions
from ..operations.existing import places_of
from ..paths import show
from ..report import Moves
from ..stores.archivewriter import ArchiveWriter
from ..stores.base import Store
from ..stores.imageindex import Entry, ImageIndex
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..transfer import Progress, Task
from ..transfer.blobs import BytesBlob, StoredBlob
from ..transfer.copygraph import GraphCopier, GraphOptions
from ..transfer.graph import Node
from ..transfer.progress import reported
from ..transfer.session import CopySession
from ..transfer.workers import Workers
from .contents import ManifestRecorder, ReferenceContents, contents_of
from .inventory import Inventory
from .names import Name, name_of
from .options import PackOptions
from .reports import PackedReference, PackReport, VolumeReport

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

ANNOTATION_BLOBS_AT = "org.ocibridge.bundle.blobs-at"
"""Annotation of an entry of `index.json`: repositories of the other side, as the sending side names them, that have the
blobs which the archive lacks; separated by commas."""
_PHASE = "packing"
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class _PackItem:
    """A name to pack.

    Attributes:
        name: The name.
        contents: Its manifests and blobs.
        source: Its store.
        unchanged: True if the other side has all of it.
    """

    name: Name
    contents: ReferenceContents
    source: Store
    unchanged: bool


def pack(
    references: Sequence[str | Reference],
    target: str | os.PathLike[str] | ArchiveReference,
    options: PackOptions = PackOptions(),
    *,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> PackReport:
    """Write references into one OCI image layout archive.

    The same content with the same names gives the same bytes, in any order of references and from any registry. The
    next run therefore resumes an interrupted one: it reads what is there, and fetches the rest.

    Args:
        references: Registry references or layouts; each gets one name, `HOST/REPOSITORY:TAG`.
        target: The archive, as a path or `oci-archive:FILE`.
        options: What is packed, and how.
        registry: Credentials and TLS.
        progress: Receives progress events.

    Raises:
        UsageError: there is no reference, or two have one name.
        NotFound: a reference does not exist.
        IntegrityError: the bytes of a source do not match a digest.
        StoreError: a source refused a request, or could not be reached.
        DestinationError: the archive cannot be written, or exists.

    Example:
        >>> pack(["localhost:5000/models/digits:v1"], "models.tar")  # doctest: +SKIP
    """
    path = archive_path(target)
    progress = progress or Progress()
    known = Inventory() if options.since is None else Inventory.read(Path(options.since))
    inventory = None if options.inventory is None else Path(options.inventory)
    if inventory is not None:
        Inventory.check_target(inventory, path)
    wanted = _wanted(references)
    places = [place for each in wanted.values() for place in places_of(each)]
    rules = TargetRules(options.existing, tuple(places), {"format": "oci-archive"})
    graph = GraphOptions(tuple(options.platforms or ()), options.referrers, (), options.digest_tags, concurrency=1)
    with ExitStack() as stack:
        writer = stack.enter_context(ArchiveWriter(path, options.volume_size, rules=rules))
        sources = _open(wanted.values(), registry, stack)
        session = CopySession()
        workers = Workers(options.concurrency, progress, list(sources.values()))
        progress.plan("reading", len(wanted), 0)

        def read(item: tuple[Name, Reference]) -> tuple[list[_PackItem], list[str]]:
            task = Task("reading", item[0].text, 0)
            with reported(progress, task):
                return _contents(*item, sources[item[1].name], graph, session, options.companions, known)

        items = workers.map(read, list(wanted.items()))
        found = {each.name.text: each for every, _ in items for each in every}
        warnings = list(dict.fromkeys(text for _, every in items for text in every))
        ordered = [found[text] for text in sorted(found)]
        written = _write(writer, [each for each in ordered if not each.unchanged], known, options.concurrency, progress)
        warnings += [text for source in sources.values() for text in source.warnings if text not in warnings]
    if all(each.unchanged for each in ordered):
        warnings.append("the other side has everything already: there is nothing in the archive")
    held = {each.name.text: each.contents.held for each in ordered}
    if inventory is not None:
        known.joined(held).write(inventory)
    return PackReport(
        target=str(path),
        references=[_packed(each) for each in ordered],
        totals=Moves(
            copied=written.blobs,
            copied_bytes=written.blob_bytes,
            present=len(written.left),
            present_bytes=sum(written.left.values()),
            manifests=written.manifests,
        ),
        kept=written.kept,
        volumes=written.volumes,
        inventory=None if inventory is None else str(inventory),
        warnings=warnings,
    )


def archive_path(target: str | os.PathLike[str] | ArchiveReference) -> Path:
    """Return the path that a path or `oci-archive:FILE` names.

    Raises:
        UsageError: it contains a tag.
    """
    if isinstance(target, str) and target.startswith("oci-archive:"):
        reference = parse_reference(target)
        assert isinstance(reference, ArchiveReference)
    elif isinstance(target, ArchiveReference):
        reference = target
    else:
        return Path(target)
    if reference.tag or reference.digest:
        raise UsageError(
            f"{reference} names a tag", hint=f"leave it out: every reference keeps its own in {reference.name}"
        )
    return reference.path


def _wanted(references: Sequence[str | Reference]) -> dict[Name, Reference]:
    """Return the references by their names in the archive.

    Raises:
        InvalidReference: one is malformed.
        UsageError: there is none, or two have one name.
    """
    found: dict[Name, Reference] = {}
    for each in references:
        reference = parse_reference(each) if isinstance(each, str) else each
        name = name_of(reference)
        if found.setdefault(name, reference) != reference:
            raise UsageError(
                f"{reference} and {found[name]} would both be called {show(name.text)}",
                hint="pack them into two archives",
            )
    if not found:
        raise UsageError("there is nothing to pack", hint="name one reference or more")
    return found


def _open(references: Iterable[Reference], registry: RegistryOptions | None, stack: ExitStack) -> dict[str, Store]:
    """Open the stores of the references, by name; `stack` closes them."""
    from ..stores.registry import RegistryOptions

    options = registry or RegistryOptions()
    hosts = stack.enter_context(Hosts())
    stores: dict[str, Store] = {}
    addresses = {each.host.lower() for each in references if isinstance(each, RegistryReference)}
    if len(addresses) > 1 and (options.username is not None or options.cert_file is not None):
        raise UsageError(
            "user, password and client certificate are for one registry, and the references are in several",
            hint="log in to each with 'ocibridge login HOST'",
        )
    for each in references:
        if each.name not in stores:
            stores[each.name] = stack.enter_context(open_store(each, options, hosts=hosts))
    return stores


def _contents(
    name: Name,
    reference: Reference,
    source: Store,
    options: GraphOptions,
    session: CopySession,
    companions: bool,
    known: Inventory,
) -> tuple[list[_PackItem], list[str]]:
    """Return the names to pack for a reference, and warnings; no blob is fetched."""
    recorder = ManifestRecorder(f"the contents of {name.text}", source.limits)
    copier = GraphCopier(source, recorder, options, session)
    copied = [copier.copy(reference.version, name.tag)]
    if companions and name.tag is not None:
        tagged = reference.at(name.tag)
        copied += [each for _, each in copy_companions(copier, tagged, tagged, copied[0])]
    named = [
        (Name(f"{name.repository}:{tag}" if name.repository else tag, name.repository, tag), tag)
        for tag in recorder.tags()
    ]
    if name.tag is None:
        named.append((name, copied[0].descriptor.digest))
    found = []
    for each, version in named:
        contents = contents_of(recorder, version)
        held = known.references.get(each.text)
        found.append(_PackItem(each, contents, source, held is not None and held.covers(contents.held)))
    return found, [text for each in copied for text in each.warnings]


@dataclass(slots=True)
class _PackedBlobs:
    """Contents of the written archive; `left` has the sizes of blobs that the other side has."""

    volumes: list[VolumeReport]
    left: dict[str, int]
    manifests: int
    blobs: int
    blob_bytes: int
    kept: int


def _write(
    writer: ArchiveWriter, found: Sequence[_PackItem], known: Inventory, concurrency: int, progress: Progress
) -> _PackedBlobs:
    there = {digest for held in known.references.values() for digest in held.blobs}
    left: dict[str, int] = {}
    manifests: dict[str, Node] = {}
    blobs: dict[str, int] = {}
    items: list[StoredBlob | BytesBlob] = []
    for each in found:
        for node in each.contents.nodes:
            for blob in node.blobs:
                if blob.digest in there:
                    left[blob.digest] = blob.size
                elif blob.digest not in blobs:
                    blobs[blob.digest] = blob.size
                    items.append(StoredBlob(each.source, blob))
            if node.digest not in manifests:
                manifests[node.digest] = node
                items.append(BytesBlob(node.descriptor, node.data))
    writer.need(item.size for item in items)
    progress.plan(_PHASE, len(items), sum(item.size for item in items))
    with closing(_ahead(items, concurrency, writer.bytes_left_over())) as ahead:
        for descriptor, content in ahead:
            task = Task(_PHASE, descriptor.digest, descriptor.size)
            with reported(progress, task):
                writer.add(descriptor, content, partial(progress.advance, task))
    volumes = writer.publish(ImageIndex.of(_entries(found, manifests, known.homes(left.keys()))))
    return _PackedBlobs(
        [VolumeReport(path=str(each.path), size=each.size, digest=each.digest) for each in volumes],
        left,
        len(manifests),
        len(blobs),
        sum(blobs.values()),
        writer.kept,
    )


def _ahead(
    items: Sequence[StoredBlob | BytesBlob], concurrency: int, left: int
) -> Generator[tuple[Descriptor, Content], None, None]:
    """Return the items in order, and fetch small blobs in advance while others are written.

    Args:
        items: Blobs and manifests.
        concurrency: Number of blobs fetched at the same time.
        left: Bytes of the archive that an interrupted run has written; blobs among them are not fetched in advance.
    """
    waiting: deque[tuple[Descriptor, Content | Future[Content]]] = deque()
    rest = iter(items)
    with ThreadPoolExecutor(max(1, concurrency), thread_name_prefix="ocibridge") as pool:
        try:
            while True:
                for item in islice(rest, _AHEAD * concurrency - len(waiting)):
                    left -= BLOCK + item.size + -item.size % BLOCK
                    # Those that are small are fetched now; what is in the archive already is not fetched at all.
                    later = item if left >= 0 and isinstance(item, StoredBlob) else pool.submit(item.content)
                    waiting.append((item.descriptor, later))
                if not waiting:
                    return
                descriptor, content = waiting.popleft()
                yield descriptor, content.result() if isinstance(content, Future) else content
        except BaseException:  # also of the consumer
            pool.shutdown(wait=False, cancel_futures=True)
            for store in {id(each.store): each.store for each in items if each.store is not None}.values():
                store.interrupt()
            raise


def _entries(found: Sequence[_PackItem], manifests: dict[str, Node], homes: dict[str, list[str]]) -> list[Entry]:
    """Return the entries of `index.json`: names in order, then referrers without a name, by digest."""
    entries = []
    for each in found:
        lists = [homes.get(blob.digest, ()) for blob in each.contents.blobs]
        places = {place for every in lists if each.name.repository not in every for place in every if place}
        annotations = {ANNOTATION_REF_NAME: each.name.text}
        if places:
            annotations = {ANNOTATION_BLOBS_AT: ",".join(sorted(places)), **annotations}
        entries.append(_entry(each.contents.root, annotations))
    named = {each.contents.root.digest for each in found}
    nameless = [node for digest, node in sorted(manifests.items()) if node.subject is not None and digest not in named]
    return entries + [_entry(each, None) for each in nameless]


def _entry(node: Node, annotations: dict[str, str] | None) -> Entry:
    own = parse_json(node.data, node.digest, len(node.data)).get("artifactType")
    described = Descriptor(
        media_type=node.descriptor.media_type,
        digest=node.digest,
        size=node.descriptor.size,
        annotations=annotations,
        artifact_type=own if isinstance(own, str) and own else None,
    )
    return described.model_dump(mode="json", by_alias=True, exclude_none=True)


def _packed(found: _PackItem) -> PackedReference:
    return PackedReference(
        name=found.name.text,
        digest=found.contents.root.digest,
        action="unchanged" if found.unchanged else "packed",
        manifest_count=len(found.contents.nodes),
        blob_count=len(found.contents.blobs),
        size=sum(each.size for each in found.contents.blobs),
    )
