# SPDX-License-Identifier: Apache-2.0
"""The copy engine: the only code that brings blobs and manifests into a store.

What is pushed, copied, translated, mirrored or unpacked comes here as blobs (see `blobs`). For each there is one
decision: is it at the target, can the target's registry mount it, and is its digest known, or is it hashed while it is
sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from .. import settings
from ..errors import IntegrityError, StoreError
from ..io.atomic import left_over
from ..io.positioned import check_free_space
from ..layers import LayerStream
from ..oci import Descriptor
from ..settings import MiB
from ..stores.base import Store, can_mount
from .blobs import Blob, LayerBlob
from .cache import DigestCache
from .digests import hash_layer
from .progress import Progress, Task, reported
from .session import CopySession, Presence
from .workers import Workers

Result = TypeVar("Result")

COPIED, MOUNTED, PRESENT = "copied", "mounted", "present"
ASK = MiB
"""Blobs of this size or more are worth the question whether the target has them, even where it looks new."""
INCOMPLETE = ("MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN", "MANIFEST_UNKNOWN")
"""Codes of a registry that lacks what a manifest names (distribution-spec, "Error Codes")."""


class CopyEngine:
    """Brings blobs and manifests into one target.

    Args:
        target: The target.
        session: What is known in this run.
        phase: What progress calls the work.
        progress: Receives progress events.
        concurrency: Blobs that move at the same time.
        sources: Stores that blobs come from.
        mount_from: Repositories that may have the blobs, in addition to known ones.
        cache: Gets every digest that is found.
    """

    def __init__(
        self,
        target: Store,
        session: CopySession,
        phase: str,
        *,
        progress: Progress | None = None,
        concurrency: int = settings.CONCURRENCY,
        sources: Sequence[Store] = (),
        mount_from: Sequence[Store] = (),
        cache: DigestCache | None = None,
    ) -> None:
        self._target = target
        self._session = session
        self._phase = phase
        self._progress = progress or Progress()
        self._concurrency = concurrency
        self._sources = sources
        self._mount_from = mount_from
        self._cache = cache or DigestCache(None)
        self._others: set[str] = set()

    # Blobs.

    def copy(self, blobs: Sequence[Blob], full: bool = False) -> list[str]:
        """Bring blobs to the target, the largest first, and say how: `copied`, `mounted` or `present`, in their order.

        Blobs of one digest move once. The first error ends the work on all of them.

        Args:
            blobs: The blobs; every digest is known when this returns.
            full: Trust only what was seen in this run.

        Raises:
            NotFound: a source does not have a blob.
            IntegrityError: a source has other bytes than promised.
            SourceError: a file cannot be read, or changed while it was read.
            DestinationError: the disk of the target has less space than they need.
            StoreError: the target or a source refused something, or could not be reached.
        """
        groups: dict[object, list[Blob]] = {}
        for number, blob in enumerate(blobs):
            groups.setdefault(blob.descriptor.digest if blob.descriptor else number, []).append(blob)
        self._check_free_space([group[0] for group in groups.values()])
        actions: dict[int, str] = {}

        def copy_group(group: list[Blob], workers: Workers) -> None:
            first, assumed = group[0], group[0].descriptor
            actions[id(first)] = self._copy_blob(first, workers, full)
            for other in group[1:]:
                right = first.descriptor == assumed
                actions[id(other)] = actions[id(first)] if right else self._copy_blob(other, workers, full)

        known = [each[0].descriptor.digest for each in groups.values() if each[0].descriptor]
        self._others.update(digest for digest in known if not self._session.begin(self._target, digest))
        size = sum(each[0].size for each in groups.values() if self._is_planned(each[0].descriptor))
        self._each(sorted(groups.values(), key=lambda group: -group[0].size), copy_group, size)
        return [actions[id(blob)] for blob in blobs]

    def _check_free_space(self, blobs: Sequence[Blob]) -> None:
        """Check the free space for blobs of known digests, without what an interrupted copy has left of them."""
        folder = self._target.capabilities.folder
        if folder is not None:
            new = [each.size for each in blobs if each.descriptor and not self._target.has_blob(each.descriptor)]
            check_free_space(folder, self._target.name, sum(new), left_over(folder))

    def plan(self, blobs: Sequence[Blob], full: bool = False) -> list[str]:
        """Plan the copy of a blob, as if all plans of this run were done."""
        size = sum(blob.size for blob in blobs)
        return self._each([[blob] for blob in blobs], lambda group, _: self._plan_blob(group[0], full), size)

    def copy_quietly(self, blobs: Sequence[Blob]) -> None:
        """Bring small blobs to the target that progress does not count, such as configs. See `copy`."""
        for blob in blobs:
            self._copy_blob(blob, Workers(1, Progress()), False)

    def _copy_blob(self, blob: Blob, workers: Workers, full: bool) -> str:
        if blob.descriptor is None:
            assert isinstance(blob, LayerBlob)
            return self._stream(blob, workers)
        if not (isinstance(blob, LayerBlob) and blob.assumed):
            return self._copy_known(blob, blob.descriptor, workers, full)
        with suppress(IntegrityError):
            return self._copy_known(blob, blob.descriptor, workers, full)
        # The digest was an earlier one: the store has refused the bytes of today, which are as good.
        return self._copy_known(blob, hash_layer(blob, self._cache, workers), workers, full)

    def _is_planned(self, descriptor: Descriptor | None) -> bool:
        """Return whether the bytes of a blob count here: what another copy of the run brings counts there."""
        return descriptor is None or descriptor.digest not in self._others

    def _each(
        self, groups: Sequence[list[Blob]], work: Callable[[list[Blob], Workers], Result], planned: int
    ) -> list[Result]:
        """Work on groups of equal blobs, several at once; the first error stops all."""
        self._progress.plan(self._phase, len(groups), planned)
        size = sum(group[0].size for group in groups)
        workers = Workers(self._threads(len(groups), size), self._progress, [*self._sources, self._target])
        return workers.map(lambda group: work(group, workers), groups)

    def _threads(self, blobs: int, size: int) -> int:
        """Threads that move blobs: while other copies run, threads for small ones cost more than they gain."""
        others = self._session.running - 1
        if not self._target.capabilities.parallel or (size < ASK and others > 0):
            return 1
        # All copies together have twice as many as one alone, so that no host has to serve dozens of connections.
        most = self._concurrency if others < 1 else max(1, 2 * self._concurrency // (others + 1))
        return min(most, blobs)

    def _copy_known(self, blob: Blob, descriptor: Descriptor, workers: Workers, full: bool) -> str:
        presence = self._session.presence(self._target, descriptor.digest)
        task = Task(self._phase, blob.label, descriptor.size, planned=self._is_planned(descriptor))
        with presence.lock:
            action = self._without_bytes(blob, descriptor, presence, full)
            if action is None:
                with reported(workers.progress, task):
                    self._send(blob, descriptor, self._counter(task, workers))
                action = COPIED
            else:
                workers.progress.finish(task, "mounted" if action == MOUNTED else "skipped")
            presence.homes[self._target.name] = self._target
        self._session.report_blob(self._target, descriptor, action)
        return action

    def _without_bytes(self, blob: Blob, descriptor: Descriptor, presence: Presence, full: bool) -> str | None:
        """Give the target the blob without a transfer, if possible, and return the action."""
        target, session = self._target, self._session
        at_home = blob.store is not None and blob.store.name == target.name
        if target.name in presence.homes or (at_home and not full):
            return PRESENT
        journalled = (target.name, descriptor.digest) in session.journalled
        asked = journalled or (full and not session.is_new(target))
        if asked and target.has_blob(descriptor):
            return PRESENT
        for home in self._homes(blob, descriptor, presence):
            if session.may_mount(home, target):
                mounted = target.mount_blob(descriptor, home)
                session.record_mount(home, target, mounted)
                if mounted:
                    return MOUNTED
        cheap = session.is_new(target) and descriptor.size < ASK
        if not (asked or cheap) and target.has_blob(descriptor):
            return PRESENT
        return MOUNTED if any(target.mount_blob(descriptor, each) for each in self._mount_from) else None

    def _homes(self, blob: Blob, descriptor: Descriptor, presence: Presence) -> Iterator[Store]:
        """The stores that have a blob as far as this run knows, each once."""
        homes = [*presence.homes.values(), *self._session.journalled_homes(self._target, descriptor.digest)]
        if blob.store is not None:
            homes.append(blob.store)
        yield from {each.name: each for each in homes}.values()

    def _send(self, blob: Blob, descriptor: Descriptor, on_bytes: Callable[[int], None]) -> None:
        content = blob.content()
        try:
            self._target.push_blob(descriptor, content, on_bytes)
        except IntegrityError as exc:
            if blob.store is None:
                raise IntegrityError(
                    f"{blob.label} does not have the bytes that were announced for it ({exc.message})",
                    hint="the source is damaged or changed while it was read: check it and push again",
                ) from exc
            raise IntegrityError(
                f"{blob.store.name} gave other bytes than those of the blob {descriptor.digest} ({exc.message})",
                hint="try again; if it stays so, the source is damaged and the model must be pushed there again",
            ) from exc

    def _stream(self, blob: LayerBlob, workers: Workers) -> str:
        """Hash a layer while it is sent."""
        task = Task(self._phase, blob.label, blob.size)
        watch, count = workers.watch(task), self._counter(task, workers)
        # Only what is sent is progress; reading has to hear of the end of all work, too.
        with reported(workers.progress, task), LayerStream(blob.layer, lambda _: watch(0)) as reading:
            sent = self._target.stream_blob(reading, blob.key.text if blob.key else None, count)
            descriptor = blob.found(reading.finish(), self._cache)
            if not sent:
                self._send(blob, descriptor, count)
        presence = self._session.presence(self._target, descriptor.digest)
        with presence.lock:
            presence.homes[self._target.name] = self._target
        self._session.report_blob(self._target, descriptor, COPIED)
        return COPIED

    def _plan_blob(self, blob: Blob, full: bool) -> str:
        target, session = self._target, self._session
        assert blob.descriptor is not None
        presence = session.presence(target, blob.descriptor.digest)
        with presence.lock:
            expected = target.name in presence.planned or target.name in presence.homes
            at_home = blob.store is not None and blob.store.name == target.name and not full
            if expected or at_home or (not session.is_new(target) and target.has_blob(blob.descriptor)):
                action = PRESENT
            elif presence.planned or presence.homes or (blob.store and can_mount(blob.store, target)):
                action = MOUNTED
            else:
                action = COPIED
            presence.planned |= {target.name}
        return action

    def _counter(self, task: Task, workers: Workers) -> Callable[[int], None]:
        """Counts the bytes of a task once they may pass."""
        watch, throttle = workers.watch(task), self._session.throttle

        def count(number: int) -> None:
            if throttle is not None and number > 0:
                throttle(number)
            watch(number)

        return count

    # Manifests.

    def push_manifest(self, descriptor: Descriptor, data: bytes, subject: Descriptor | None, tag: str | None) -> None:
        """Push a manifest, unless this run has, and no tag is wanted.

        Raises:
            StoreError: the target refused it, or could not be reached.
        """
        self._session.push(
            self._target,
            descriptor.digest,
            subject.digest if subject else None,
            tag,
            lambda: self._target.push_manifest(data, descriptor.media_type, tag),
        )

    def push_repairing(self, push: Callable[[], None], repair: Callable[[], None]) -> None:
        """Push a root; if the target turns out to lack something, repair it and push once more.

        Raises:
            StoreError: see `push_manifest`.
        """
        try:
            push()
        except StoreError as exc:
            if exc.code not in INCOMPLETE:
                raise
            repair()
            push()
