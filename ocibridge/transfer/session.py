# SPDX-License-Identifier: Apache-2.0
"""State shared by all copies of a run, so that no blob is transferred twice and no request repeated."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ..errors import NetworkError, OcibridgeError, StoreError
from ..oci import Descriptor
from ..stores.base import Store, can_mount

REFUSALS = 3
"""Mounts from one repository into another that fail in a row before they are given up."""
_STRIPES = 64
"""Locks that all manifests share, so that a run of very many has no more."""

OnBlob = Callable[[str, int, str, str], None]
"""Called for a blob with its digest, size in bytes, the name of the target, and `copied`, `mounted` or `present`."""


@dataclass(slots=True)
class Presence:
    """Known repositories of a blob, within one registry.

    Attributes:
        lock: Held by whoever brings it there; the next one finds it.
        homes: Repositories that have it, by name.
        planned: Names of repositories that would have it if all that was planned had happened.
        begun: Whether a copy of this run has it in its plan, which counts its bytes.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    homes: dict[str, Store] = field(default_factory=dict)
    planned: frozenset[str] = frozenset()
    begun: bool = False


class CopySession:
    """State of a run: locations of blobs, new repositories, refused mounts. Thread-safe.

    Args:
        on_blob: Called for each blob that the target has.
        throttle: Called with byte counts before they count as moved; it sleeps where there were too many.
        journalled: `(name of the target, digest)` of blobs that an earlier run has brought, as its journal says. The
            target is asked for them even where it looks new, and other repositories of its registry can take them from
            there.
        opened: Gives the target of such a name.

    Attributes:
        finished: Roots that were copied whole, with all that refers to them: names of source and target, options,
            whether it was only planned.
        running: Copies that run now.
    """

    def __init__(
        self,
        on_blob: OnBlob | None = None,
        throttle: Callable[[int], None] | None = None,
        journalled: Collection[tuple[str, str]] = frozenset(),
        opened: Callable[[str], Store] | None = None,
    ) -> None:
        self.on_blob = on_blob
        self.throttle = throttle
        self.journalled = journalled
        self._opened = opened
        self._journalled_in: dict[str, list[str]] = {}
        for name, digest in journalled:
            self._journalled_in.setdefault(digest, []).append(name)
        self.finished: defaultdict[object, set[str]] = defaultdict(set)
        self._pushed: defaultdict[str, set[str]] = defaultdict(set)
        self._pushing = tuple(threading.Lock() for _ in range(_STRIPES))
        self.running = 0
        self._lock = threading.Lock()
        self._presences: defaultdict[str, dict[str, Presence]] = defaultdict(dict)
        self._new: dict[str, bool] = {}
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._digest_tags: dict[str, dict[str, list[str]] | None] = {}
        self._locks: dict[str, threading.Lock] = {}

    def presence(self, target: Store, digest: str) -> Presence:
        """Return the known repositories of a blob in the registry of `target`."""
        with self._lock:
            known = self._presences[target.capabilities.mount_scope]
            found = known.get(digest)
            if found is None:
                found = known[digest] = Presence()
            return found

    def begin(self, target: Store, digest: str) -> bool:
        """Return whether this is the first copy of the run that is to bring a blob to the registry of `target`."""
        presence = self.presence(target, digest)
        with self._lock:
            first, presence.begun = not presence.begun, True
            return first

    def push(
        self, target: Store, digest: str, subject: str | None, tag: str | None, work: Callable[[], object]
    ) -> None:
        """Push a manifest, unless this run has, and nothing is missing but that.

        Nobody else pushes it, or enters another one into the same list of referrers, at the same time: registries that
        keep links in plain files give half of one to whoever reads it meanwhile, and entries of a fallback tag can get
        lost.
        """
        with self._pushing[hash((target.name, subject or digest)) % _STRIPES]:
            if tag is None and digest in self._pushed[target.name]:
                return
            work()
            self._pushed[target.name].add(digest)

    def forget(self, target: Store, digests: Iterable[str]) -> None:
        """Forget that `target` has these blobs and manifests."""
        for digest in digests:
            self._pushed[target.name].discard(digest)
            presence = self.presence(target, digest)
            with presence.lock:
                presence.homes.pop(target.name, None)
        with self._lock:
            self._new[target.name] = False

    def is_new(self, target: Store) -> bool:
        """Return whether `target` had nothing when this run began."""
        with self._once(f"new {target.name}"):
            if target.name not in self._new:
                self._new[target.name] = target.is_new()
            return self._new[target.name]

    def known_as_new(self, name: str) -> bool:
        """Return whether the target of this name was asked already, and had nothing; nobody is asked."""
        return self._new.get(name, False)

    def may_stream(self, target: Store) -> bool:
        """Return whether blobs may be hashed while they are sent: `target` supports it, and was empty at the start."""
        return target.capabilities.streams and self.is_new(target)

    def may_mount(self, source: Store, target: Store) -> bool:
        """Return whether it makes sense to try a mount."""
        return can_mount(source, target) and self._refusals[source.name, target.name] < REFUSALS

    def journalled_homes(self, target: Store, digest: str) -> list[Store]:
        """Return a few repositories of the registry of `target` to which an earlier run has copied a blob."""
        names = [name for name in self._journalled_in.get(digest, ()) if name != target.name]
        if not names or self._opened is None:
            return []
        with suppress(OcibridgeError):
            return [home for home in map(self._opened, names[:REFUSALS]) if can_mount(home, target)]
        return []

    def report_blob(self, target: Store, descriptor: Descriptor, action: str) -> None:
        """Tell `on_blob` of a blob that is at the target now."""
        if self.on_blob is not None:
            self.on_blob(descriptor.digest, descriptor.size, target.name, action)

    def record_mount(self, source: Store, target: Store, done: bool) -> None:
        """Count a mount that was refused; one that was not ends the row of refusals."""
        with self._lock:
            self._refusals[source.name, target.name] = 0 if done else self._refusals[source.name, target.name] + 1

    def remember_tags(self, source: Store, tags: Sequence[str]) -> None:
        """Keep all tags of `source`, which the caller had to list anyway."""
        with self._once(f"tags {source.name}"):
            self._digest_tags[source.name] = _by_digest(tags)

    def known_digest_tags(self, source: Store, digest: str) -> Sequence[str] | None:
        """See `digest_tags`; None where the tags of `source` have not been listed."""
        known = self._digest_tags.get(source.name)
        return None if known is None else known.get(digest.replace(":", "-"), ())

    def digest_tags(self, source: Store, digest: str) -> Sequence[str]:
        """The tags of `source` that begin with `sha256-<hex>`; all tags are listed once.

        A source that lists no tags is asked for those that cosign uses.

        Raises:
            NetworkError: the source cannot be reached.
        """
        with self._once(f"tags {source.name}"):
            if source.name not in self._digest_tags:
                self._digest_tags[source.name] = _list(source)
        known = self.known_digest_tags(source, digest)
        if known is not None:
            return known
        usual = (digest.replace(":", "-") + suffix for suffix in (".sig", ".att", ".sbom"))
        return [tag for tag in usual if source.head(tag) is not None]

    @contextmanager
    def running_copy(self) -> Iterator[None]:
        """A copy runs during the block."""
        with self._lock:
            self.running += 1
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1

    @contextmanager
    def exclusive(self, target: Store) -> Iterator[None]:
        """The block has `target` for itself, where that cannot take what several threads bring."""
        if target.capabilities.parallel:
            yield
            return
        with self._once(f"use {target.name}"):
            yield

    @contextmanager
    def _once(self, what: str) -> Iterator[None]:
        with self._lock:
            lock = self._locks.setdefault(what, threading.Lock())
        with lock:
            yield


def _list(source: Store) -> dict[str, list[str]] | None:
    try:
        return _by_digest(source.tags())
    except NetworkError:
        raise
    except StoreError:
        return None


def _by_digest(tags: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tag in tags:
        if tag.startswith("sha256-"):
            found.setdefault(tag[: len("sha256-") + 64], []).append(tag)
    return found
