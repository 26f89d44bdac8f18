# SPDX-License-Identifier: Apache-2.0
"""Bringing single blobs from store to store: found there, mounted, or streamed, with nothing kept on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import IntegrityError
from ..io.content import BytesContent, Content, Reader
from ..oci import Descriptor
from ..settings import KiB, MiB
from ..stores.base import Store, can_mount
from .progress import Task, reported
from .session import CopySession, Presence
from .workers import Workers

COPIED, MOUNTED, PRESENT = "copied", "mounted", "present"
PHASE = "copying"
SMALL = 256 * KiB
"""Blobs up to this size are fetched whole before they are sent."""
ASK = MiB
"""Blobs of this size or more are worth the question whether the target has them, even where it looks new."""


@dataclass(frozen=True, slots=True)
class RelayedContent:
    """The bytes of a blob in a store, which go to a store that verifies them: none of ours takes anything unseen.

    Attributes:
        store: Where it is.
        descriptor: The blob.
    """

    store: Store
    descriptor: Descriptor

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.descriptor.size

    def open(self, offset: int = 0) -> Reader:
        """Open from `offset`; a line that breaks is taken up where it broke."""
        return self.store.resume_blob(self.descriptor, offset)


class BlobCopier:
    """The way of blobs from one store to another.

    Args:
        source: Where they are.
        target: Where they go.
        shared: What is known in this run.
    """

    def __init__(self, source: Store, target: Store, shared: CopySession) -> None:
        self._source, self._target, self._shared = source, target, shared

    def move(self, descriptor: Descriptor, workers: Workers, full: bool) -> str:
        """Bring a blob to the target, and say how.

        Args:
            descriptor: The blob.
            workers: In which this runs.
            full: Whether only what was seen in this run is believed.

        Raises:
            NotFound: the source does not have it.
            IntegrityError: the source has other bytes.
            StoreError: one of the two refused, or could not be reached.
        """
        presence = self._shared.presence(self._target, descriptor.digest)
        task = Task(PHASE, descriptor.digest, descriptor.size)
        with presence.lock:
            action = self._without_bytes(descriptor, presence, full)
            if action is None:
                with reported(workers.progress, task):
                    self._send(descriptor, workers.watch(task))
                action = COPIED
            else:
                workers.progress.finish(task, "mounted" if action == MOUNTED else "skipped")
            presence.homes[self._target.name] = self._target
        if self._shared.on_blob is not None:
            self._shared.on_blob(descriptor.digest, descriptor.size, self._target.name, action)
        return action

    def foresee(self, descriptor: Descriptor, workers: Workers, full: bool) -> str:
        """What `move` would do, as if all that was foreseen in this run had happened."""
        source, target, shared = self._source, self._target, self._shared
        presence = shared.presence(target, descriptor.digest)
        with presence.lock:
            believed = target.name in presence.planned or target.name in presence.homes
            same = source.name == target.name and not full
            if believed or same or (not shared.is_new(target) and target.has_blob(descriptor)):
                action = PRESENT
            elif presence.planned or presence.homes or can_mount(source, target):
                action = MOUNTED
            else:
                action = COPIED
            presence.planned.add(target.name)
        return action

    def _without_bytes(self, descriptor: Descriptor, presence: Presence, full: bool) -> str | None:
        source, target, shared = self._source, self._target, self._shared
        if target.name in presence.homes or (source.name == target.name and not full):
            return PRESENT
        noted = (target.name, descriptor.digest) in shared.noted
        asked = noted or (full and not shared.is_new(target))
        if asked and target.has_blob(descriptor):
            return PRESENT
        homes = (*presence.homes.values(), *shared.noted_homes(target, descriptor.digest), source)
        for home in {each.name: each for each in homes}.values():
            if shared.may_mount(home, target):
                mounted = target.mount_blob(descriptor, home)
                shared.mounted(home, target, mounted)
                if mounted:
                    return MOUNTED
        if asked or (shared.is_new(target) and descriptor.size < ASK):
            return None
        return PRESENT if target.has_blob(descriptor) else None

    def _send(self, descriptor: Descriptor, on_bytes: Callable[[int], None]) -> None:
        content: Content = RelayedContent(self._source, descriptor)
        if descriptor.size <= SMALL:
            content = BytesContent(self._source.read_blob(descriptor, SMALL))
        try:
            self._target.push_blob(descriptor, content, self._throttled(on_bytes))
        except IntegrityError as exc:
            raise IntegrityError(
                f"{self._source.name} gave other bytes than those of the blob {descriptor.digest} ({exc.message})",
                hint="try again; if it stays so, the source is damaged and the model must be pushed there again",
            ) from exc

    def _throttled(self, on_bytes: Callable[[int], None]) -> Callable[[int], None]:
        throttle = self._shared.throttle
        if throttle is None:
            return on_bytes

        def count(number: int) -> None:
            if number > 0:
                throttle(number)
            on_bytes(number)

        return count
