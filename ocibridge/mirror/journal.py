# SPDX-License-Identifier: Apache-2.0
"""Journal of the runs of a job, with which the next one sends fewer requests, and resumes.

Nothing in the journal is trusted alone: a tag is left out of the work only if the target, when asked, still has the
digest that is written here. What the notes save is the second question, whether all blobs are there too.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import DestinationError, writing
from ..io.log import JsonLog

_VERSION = 1
_FIRST = b'{"run":'

Known = dict[str, tuple[str, str, str]]
"""Digests at source and target of each tag that was finished, and the way in which it was copied."""


class MirrorJournal:
    """The notes on one job.

    Args:
        path: The file; None keeps notes for this process only.

    Attributes:
        unfinished: Targets that an earlier run had finished before it was stopped; empty where it came to its end.
        blobs: `(repository, digest)` of the blobs that it had brought.

    Raises:
        DestinationError: it cannot be written, or another run of the job is using it.

    Example:
        >>> with MirrorJournal(None) as journal:
        ...     journal.done("localhost:5000/models/digits:v1", "sha256:aa", "sha256:aa")
        ...     journal.known("localhost:5000/models/digits:v1")
        ('sha256:aa', 'sha256:aa')
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._done: Known = {}
        self.unfinished: frozenset[str] = frozenset()
        self.blobs: frozenset[tuple[str, str]] = frozenset()
        self._log: JsonLog | None = None
        if path is None:
            return
        try:
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            self._log = JsonLog(path)
        except DestinationError as exc:
            raise DestinationError(
                f"the journal cannot be kept: {exc.message}",
                hint="choose another place with --journal FILE, or do without it: --no-journal",
            ) from exc
        try:
            if not self._log.try_lock():
                raise DestinationError(
                    f"the journal {path} is in use: another run of this job is under way",
                    hint="wait until it ends, or give this one a journal of its own with --journal FILE",
                )
            self._load(self._log)
            self._write({"run": _VERSION})
        except BaseException:
            self.close()
            raise

    def known(self, target: str, way: str = "") -> tuple[str, str] | None:
        """The digests at source and target that the tag `target` had when all below it was known to be there.

        Args:
            target: The tag.
            way: How it is copied now; what was copied in another way may lack something.
        """
        return known_in(self._done, target, way)

    def blob(self, digest: str, size: int, target: str, action: str) -> None:
        """A blob has come to the repository `target`: `copied`, `mounted`, or `present` there already."""
        self._write({"blob": digest, "size": size, "target": target, "action": action})

    def done(self, target: str, source_digest: str, digest: str, way: str = "") -> None:
        """The tag `target` has all that belongs to it, if it is copied in this way."""
        with self._lock:
            self._done[target] = (source_digest, digest, way)
        self._write(_done_line(target, source_digest, digest, way))

    def forget(self, target: str) -> None:
        """Nothing is known of the tag `target` any more."""
        with self._lock:
            known = self._done.pop(target, None)
        if known:
            self._write({"forget": target})

    def finish(self) -> None:
        """The run has come to its end."""
        self._write({"end": True})

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            log, self._log = self._log, None
        if log:
            log.close()

    def __enter__(self) -> MirrorJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, fields: dict[str, object]) -> None:
        with self._lock:
            if self._log:
                self._log.append(fields)
                self._log.flush()

    @staticmethod
    def check_place(path: Path) -> None:
        """Refuse a file of somebody that was named as a journal; in the folder of the cache it is a damaged one.

        Raises:
            DestinationError: it begins with something else.
        """
        with suppress(OSError), path.open("rb") as file:
            start = file.read(len(_FIRST))
            if start != _FIRST[: len(start)]:
                raise DestinationError(f"{path} is no journal of a mirror run", hint="name another file with --journal")

    @staticmethod
    def read(path: Path) -> Known:
        """Read a journal for `known_in`; empty if there is no such file."""
        try:
            with path.open("rb") as file:
                return _JournalRecords(line for line in file if line.endswith(b"\n")).done
        except OSError:
            return {}

    def _load(self, log: JsonLog) -> None:
        notes = _JournalRecords(log.read())
        self._done = notes.done
        if not notes.ended:
            self.unfinished, self.blobs = frozenset(notes.seen), frozenset(notes.blobs)
        if not notes.ended or not notes.lines:
            return
        # Of runs that came to their end only what the next one needs is kept. It is written in place, as the lock is on
        # this file; a torn one costs questions, and nothing else.
        log.clear()
        log.append({"run": _VERSION})
        for number, (target, found) in enumerate(self._done.items()):
            log.append(_done_line(target, *found))
            if not number % 1000:
                log.flush()
        log.append({"end": True})


class _JournalRecords:
    """The lines of a journal, read; what cannot be understood is passed over."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.done: Known = {}
        self.seen: set[str] = set()
        self.blobs: set[tuple[str, str]] = set()
        self.ended = True
        self.lines = 0
        for line in lines:
            self.lines += 1
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                self._apply(json.loads(line))

    def _apply(self, fields: dict[str, Any]) -> None:
        if "run" in fields:
            if self.ended:
                self.seen.clear()
                self.blobs.clear()
            self.ended = False
        elif "end" in fields:
            self.ended = True
        elif "done" in fields:
            source, digest, way = str(fields["source"]), str(fields["digest"]), str(fields.get("way", ""))
            # There may be very many: mostly, both digests are one.
            self.done[str(fields["done"])] = (digest if source == digest else source, digest, sys.intern(way))
            self.seen.add(str(fields["done"]))
        elif "blob" in fields:
            self.blobs.add((str(fields["target"]), str(fields["blob"])))
        elif "forget" in fields:
            self.done.pop(str(fields["forget"]), None)
            self.seen.discard(str(fields["forget"]))


def known_in(known: Known, target: str, way: str) -> tuple[str, str] | None:
    """See `MirrorJournal.known`."""
    found = known.get(target)
    return found[:2] if found and found[2] == way else None


def _done_line(target: str, source_digest: str, digest: str, way: str) -> dict[str, object]:
    line: dict[str, object] = {"done": target, "source": source_digest, "digest": digest}
    return line | {"way": way} if way else line
