# SPDX-License-Identifier: Apache-2.0
"""Background threads for hashing and writing; both release the interpreter lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ..settings import KiB, MiB

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

SMALL = 64 * KiB
"""Smaller pieces are hashed at once, which is faster than using another thread."""
LARGE = 8 * MiB
"""Bytes from which a hash is worth a thread of its own."""


class Updated(Protocol):
    """A hash or a checksum."""

    def update(self, data: memoryview, /) -> object:
        """Add bytes."""
        ...


class BackgroundHasher:
    """Does work in a thread of its own, in the order given. Bytes given must not change before a `wait` for them.

    Args:
        thread: Whether a thread is worth it; without one, the caller does the work.
    """

    def __init__(self, thread: bool) -> None:
        self._pool: ThreadPoolExecutor | None = None
        if thread:
            from concurrent.futures import ThreadPoolExecutor  # who only looks at a model needs none of it

            # A single worker: updates of one hash must keep their order.
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="ocibridge-hasher")
        self._pending: deque[Future[object]] = deque()

    @property
    def pending(self) -> int:
        """Pieces of work that may not be done yet."""
        return len(self._pending)

    def update(self, digest: Updated, data: memoryview) -> None:
        """Feed `data` to `digest`, now or before a `wait` for it returns."""
        if self._pool is None or len(data) < SMALL:
            self.wait()
            digest.update(data)
        else:
            self._pending.append(self._pool.submit(digest.update, data))

    def do(self, work: Callable[[], object]) -> None:
        """Have `work` done, now or before a `wait` for it returns, which raises what it raises."""
        if self._pool is None:
            work()
        else:
            self._pending.append(self._pool.submit(work))

    def wait(self, left: int = 0) -> None:
        """Return once all but the last `left` pieces of work are done."""
        while len(self._pending) > left:
            self._pending.popleft().result()

    def close(self) -> None:
        """Finish, and end the thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self.wait()

    def __enter__(self) -> BackgroundHasher:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # What has failed first is what counts.
            self._pending.clear()
        self.close()
