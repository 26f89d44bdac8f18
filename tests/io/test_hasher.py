# SPDX-License-Identifier: Apache-2.0
"""Hashing in a thread of its own: the order, the buffers, the end."""

from __future__ import annotations

import hashlib
import threading

import pytest

from ocibridge.io.hasher import SMALL, BackgroundHasher


class Slow:
    """A hash that is not finished before it is told to go on."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.taken: list[bytes] = []

    def update(self, data: memoryview, /) -> None:
        assert self.go.wait(20)
        self.taken.append(bytes(data))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ocibridge-hasher")]


@pytest.mark.parametrize("thread", [True, False])
def test_pieces_of_all_sizes_keep_their_order(thread: bool) -> None:
    digest = hashlib.sha256()
    pieces = [bytes([number % 251]) * (SMALL + number if number % 3 else number) for number in range(60)]
    with BackgroundHasher(thread) as beside:
        for piece in pieces:
            beside.update(digest, memoryview(piece))
    assert digest.digest() == hashlib.sha256(b"".join(pieces)).digest()
    assert threads() == []


def test_wait_leaves_what_it_is_told_to() -> None:
    slow = Slow()
    with BackgroundHasher(thread=True) as beside:
        for _ in range(3):
            beside.update(slow, memoryview(bytes(SMALL)))
        beside.wait(3)
        assert not slow.taken
        slow.go.set()
        beside.wait(1)
        assert len(slow.taken) >= 2
        beside.wait()
        assert len(slow.taken) == 3
        assert beside.pending == 0


def test_an_error_beside_is_raised_here() -> None:
    class Broken:
        def update(self, _: memoryview, /) -> None:
            raise ValueError("bad piece")

    with pytest.raises(ValueError, match="bad piece"):
        with BackgroundHasher(thread=True) as beside:
            beside.update(Broken(), memoryview(bytes(SMALL)))
    assert threads() == []


@pytest.mark.parametrize("thread", [False, True])
def test_work_that_fails_is_heard_of(thread: bool) -> None:
    def fail() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"), BackgroundHasher(thread) as beside:
        beside.do(fail)
        beside.wait()


def test_what_has_failed_first_is_what_counts() -> None:
    def fail() -> None:
        raise OSError("full")

    with pytest.raises(KeyError), BackgroundHasher(True) as beside:
        beside.do(fail)
        raise KeyError
