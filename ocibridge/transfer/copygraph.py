# SPDX-License-Identifier: Apache-2.0
"""Copying one root from store to store, with all that it leads to and all that refers to it.

The version is resolved once, and everything is done by digest. Order: blobs, manifests of an index, the root, referrers
of each of them, digest tags, and the tag last: a copy that is stopped leaves no tag that leads to half of something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from .. import settings
from ..errors import LimitError, NotFound, StoreError
from ..oci import Descriptor
from ..report import Moves
from ..stores.base import Store
from ..stores.missing import naming_tags
from .blobs import StoredBlob
from .engine import INCOMPLETE, PRESENT, CopyEngine
from .graph import INDEXES, Graph, Node, check_platforms, fetch_node, select_platforms
from .progress import Progress
from .referrers import is_fallback, referrers_of
from .session import CopySession

REFERRER_DEPTH = 16
"""Manifests that may refer to one another, the one to the next."""
_PHASE = "copying"


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Options of a copy.

    Attributes:
        platforms: `OS/ARCHITECTURE[/VARIANT]` wanted of each index, which keeps its bytes; none: all.
        referrers: Whether manifests that refer to what is copied come along, and those that refer to them.
        referrer_types: Artifact types wanted of them; none: all.
        digest_tags: Whether tags that begin with `sha256-<hex>` of what is copied come along, as cosign makes them.
        full: Whether blobs are looked for even where the target has the manifest, and what is missing is brought.
        concurrency: Blobs that move at the same time.
        before: Called with the root before anything moves; what it raises ends the copy.
    """

    platforms: tuple[str, ...] = ()
    referrers: bool = True
    referrer_types: tuple[str, ...] = ()
    digest_tags: bool = False
    full: bool = False
    concurrency: int = settings.CONCURRENCY
    before: Callable[[Node], None] | None = None


class CopyResult(Moves):
    """Counts of a copy, done or planned.

    Attributes:
        descriptor: The root.
        referrers: Manifests that refer to others and are now there, whether they were before or not.
        tags: Tags that now lead to something: digest tags, and that of the root.
        warnings: What the user should know.
    """

    descriptor: Descriptor
    referrers: int = 0
    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class GraphCopier:
    """Copies roots from one store to another.

    Args:
        source: Where roots are.
        target: Where they go.
        options: What belongs to them.
        session: What is known in this run; None is a run of its own.
        progress: Receives progress events.

    Example:
        >>> GraphCopier(source, target).copy("v1", "v1").descriptor.digest  # doctest: +SKIP
        'sha256:…'
    """

    def __init__(
        self,
        source: Store,
        target: Store,
        options: GraphOptions | None = None,
        session: CopySession | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.options = options or GraphOptions()
        self.session = session or CopySession()
        self.progress = progress or Progress()

    def copy(self, version: str | Node, tag: str | None = None) -> CopyResult:
        """Copy what a tag or digest names.

        Args:
            version: Tag or digest at the source, or what was read of it.
            tag: Tag at the target; None leaves it reachable by digest alone.

        Raises:
            NotFound: the source does not have it, or lacks a blob of it.
            FormatError: it is no manifest that can be copied.
            IntegrityError: the source has other bytes than a digest promises.
            StoreError: one of the two refused something, or could not be reached.
        """
        root = self._read_root(version)
        if self.options.before is not None:
            self.options.before(root)
        with self.session.exclusive(self.target), self.session.running_copy(), self.target.batch():
            return _Copy(self, False).run(root, tag)

    def plan(self, version: str | Node, tag: str | None = None) -> CopyResult:
        """Plan a copy with one HEAD request per blob; nothing is transferred.

        Blobs that an earlier call in the same session has named count as being there.

        Raises:
            OcibridgeError: see `copy`.
        """
        with self.session.running_copy():
            return _Copy(self, True).run(self._read_root(version), tag)

    def _read_root(self, version: str | Node) -> Node:
        if isinstance(version, str):
            with naming_tags(self.source, version):
                version = fetch_node(self.source, version)
        check_platforms(version, self.options.platforms)
        return version


@dataclass(slots=True)
class _CopyCounts:
    counts: Counter[str] = field(default_factory=Counter)
    tags: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def blob(self, descriptor: Descriptor, action: str) -> None:
        self.counts[action] += 1
        self.counts[f"{action}_bytes"] += descriptor.size

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def result(self, root: Node) -> CopyResult:
        return CopyResult(
            descriptor=root.descriptor, **self.counts, tags=tuple(self.tags), warnings=tuple(self.warnings)
        )


@dataclass(frozen=True, slots=True)
class _Related:
    """A manifest that belongs to another: by its subject, or by its tag.

    Attributes:
        descriptor: The manifest.
        subject: Digest of the other one.
        tag: The tag; None where it is a referrer.
    """

    descriptor: Descriptor
    subject: str
    tag: str | None


class _Copy:
    """One call of `GraphCopier.copy`, or of `plan` where it is dry."""

    def __init__(self, copier: GraphCopier, dry: bool) -> None:
        self._dry = dry
        self._source, self._target = copier.source, copier.target
        self._options, self._session = copier.options, copier.session
        self._engine = CopyEngine(
            self._target,
            self._session,
            _PHASE,
            progress=copier.progress,
            concurrency=self._options.concurrency,
            sources=(self._source,),
        )
        self._new = self._session.is_new(self._target)
        self._key = replace(self._options, full=False, concurrency=0, before=None)
        self._tally = _CopyCounts()
        self._done: set[str] = set()
        self._blobs: set[str] = set()
        self._pushed: set[str] = set()

    def run(self, root: Node, tag: str | None) -> CopyResult:
        if root.subject is not None and self._source.head(root.subject.digest) is None:
            self._tally.warn(
                f"{self._source.name} lacks the manifest {root.subject.digest}, which {root.digest} refers to"
            )
        self._copy_root(root, tag, 0)
        return self._tally.result(root)

    def _copy_root(self, root: Node, tag: str | None, depth: int, listed: bool = True) -> None:
        """Copy a root and what refers to it; its tag comes last.

        Args:
            root: The root.
            tag: Its tag.
            depth: How many manifests it refers to, one by way of the other.
            listed: Whether it need not be pushed where the target has it.
        """
        self._done.add(root.digest)
        finished = self._session.finished[self._source.name, self._target.name, self._key, self._dry]
        known = root.digest in finished
        tagged = tag is not None and self._tag_leads_to(tag, root.digest)
        there = known or tagged or self._target_has(root.digest)
        if there and (known or (not self._options.full and self._target_has_children(root))):
            graph = self._graph_at_target(root)
        else:
            graph = self._read_graph(root)
            self._copy_blobs(graph, self._options.full)
        related = [] if known else self._find_related(graph.digests())
        if (not there and (related or tag is None)) or not (listed or known):
            self._push_root(graph, None)
        self._copy_related(related, depth)
        if tag is not None:
            if not tagged:
                self._push_root(graph, tag)
            self._tally.tags.append(tag)
        finished.add(root.digest)

    # Manifests and their blobs.

    def _tag_leads_to(self, tag: str, digest: str) -> bool:
        """Return whether a tag of the target leads to `digest`."""
        there = None if self._new else self._target.head(tag)
        return there is not None and there.digest == digest

    def _target_has(self, digest: str) -> bool:
        return not self._new and self._target.head(digest) is not None

    def _target_has_children(self, root: Node) -> bool:
        """Return whether the target has all wanted children: it may have other platforms of an index."""
        return all(self._target_has(child.digest) for child in select_platforms(root, self._options.platforms))

    def _graph_at_target(self, root: Node) -> Graph:
        """The graph of a root that the target has; of its children only indexes are read."""
        graph = Graph(self._source, root, self._options.platforms, stop=lambda child: child.media_type not in INDEXES)
        for blob in graph.blobs():
            self._count(blob, PRESENT)
        return graph

    def _read_graph(self, root: Node) -> Graph:
        graph = Graph(self._source, root, self._options.platforms)
        for child in graph.missing:
            self._tally.warn(
                f"{self._source.name} lacks the manifest {child.digest}, which the index {root.digest} lists: "
                "it was left out"
            )
        return graph

    def _copy_blobs(self, graph: Graph, full: bool) -> None:
        """Bring the blobs of a graph, and its manifests but the root."""
        blobs = [StoredBlob(self._source, each) for each in graph.blobs()]
        actions = self._engine.plan(blobs, full) if self._dry else self._engine.copy(blobs, full)
        for blob, action in zip(blobs, actions, strict=True):
            self._count(blob.descriptor, action)
        for node in graph.nodes[:-1]:
            if not self._target_has(node.digest):
                self._push_manifest(node, None)

    def _count(self, blob: Descriptor, action: str) -> None:
        if blob.digest not in self._blobs:
            self._blobs.add(blob.digest)
            self._tally.blob(blob, action)

    def _push_root(self, graph: Graph, tag: str | None) -> None:
        """Push a root. Blobs that the target turns out to lack are copied once."""
        root, missing = graph.nodes[-1], graph.missing

        def repair() -> None:
            nonlocal missing
            graph = self._read_graph(root)
            missing = graph.missing
            self._session.forget(self._target, [*graph.digests(), *(each.digest for each in graph.blobs())])
            self._new = False
            self._copy_blobs(graph, full=True)

        try:
            self._engine.push_repairing(lambda: self._push_manifest(root, tag), repair)
        except StoreError as exc:
            if exc.code in INCOMPLETE and (missing or self._options.platforms):
                exc.hint = "this registry takes no index without all of its manifests: copy all platforms"
            raise

    def _push_manifest(self, node: Node, tag: str | None) -> None:
        if not self._dry:
            self._engine.push_manifest(node.descriptor, node.data, node.subject, tag)
        self._pushed.add(node.digest)
        self._tally.counts["manifests"] = len(self._pushed)

    # What refers to them.

    def _find_related(self, digests: Iterable[str]) -> list[_Related]:
        """Find referrers and digest tags of some manifests."""
        found: list[_Related] = []
        for digest in digests:
            if self._options.referrers:
                types = self._options.referrer_types
                listed = referrers_of(self._source, digest, types, self._session, self._tally.warn)
                found += [_Related(each, digest, None) for each in listed]
            if self._options.digest_tags:
                for tag in self._session.digest_tags(self._source, digest):
                    each = self._source.head(tag)
                    if each is not None and not is_fallback(tag, each):
                        found.append(_Related(each, digest, tag))
        return found

    def _copy_related(self, related: Sequence[_Related], depth: int) -> None:
        if related and depth >= REFERRER_DEPTH:
            raise LimitError(
                f"{self._source.name}: more than {REFERRER_DEPTH} manifests refer to one another in a row",
                hint="copy without referrers and digest tags",
            )
        listed: dict[str, set[str]] = {}
        for each in related:
            if each.tag is not None:
                self._copy_digest_tag(each.descriptor, each.tag, depth + 1)
            elif each.descriptor.digest not in self._done:
                there = listed.get(each.subject)
                if there is None:
                    there = listed[each.subject] = self._referrers_at_target(each.subject)
                self._copy_referrer(each, each.descriptor.digest in there, depth + 1)

    def _referrers_at_target(self, digest: str) -> set[str]:
        """List the referrers that the target has for a manifest."""
        return set() if self._new else {each.digest for each in self._target.referrers(digest)}

    def _copy_referrer(self, related: _Related, there: bool, depth: int) -> None:
        """Copy a manifest that refers to another, unless the target lists it."""
        if there and not self._options.full and related.descriptor.media_type not in INDEXES:
            self._done.add(related.descriptor.digest)
            self._tally.counts["referrers"] += 1
            self._copy_related(self._find_related([related.descriptor.digest]), depth)
            return
        try:
            node = fetch_node(self._source, related.descriptor.digest)
        except NotFound:
            self._tally.warn(f"{self._source.name} lists {related.descriptor.digest} as a referrer, and lacks it")
            return
        if node.subject is None or node.subject.digest != related.subject:
            self._tally.warn(
                f"{self._source.name} lists {node.digest} as a referrer of {related.subject}, which it is not: "
                "it was left out"
            )
            return
        self._tally.counts["referrers"] += 1
        self._copy_root(node, None, depth, listed=there)

    def _copy_digest_tag(self, descriptor: Descriptor, tag: str, depth: int) -> None:
        if not self._options.full and self._tag_leads_to(tag, descriptor.digest):
            self._done.add(descriptor.digest)
            self._tally.tags.append(tag)
            return
        node = fetch_node(self._source, descriptor.digest)
        if node.digest in self._done:
            self._push_manifest(node, tag)
            self._tally.tags.append(tag)
        else:
            self._copy_root(node, tag, depth)
