# SPDX-License-Identifier: Apache-2.0
"""Blobs on their way into a layout: what a killed process leaves, and two that write the same one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ocibridge.errors import DestinationError, IntegrityError, NetworkError
from ocibridge.io import positioned as filling
from ocibridge.io.atomic import STALE, sweep
from ocibridge.io.content import BytesContent, FileContent
from ocibridge.io.readers import Reader
from ocibridge.oci import Descriptor
from ocibridge.settings import MiB
from ocibridge.stores.layout import LayoutStore

DATA = hashlib.shake_128(b"blob").digest(MiB) * 3 + b"end"
BLOB = Descriptor.of(DATA, "application/octet-stream")


class Breaking(BytesContent):
    """Bytes of which only the first few come, the first time."""

    def __init__(self, data: bytes, error: Exception, after: int = 2 * MiB) -> None:
        super().__init__(data)
        self.offsets: list[int] = []
        self._error = error
        self._after = after

    def open(self, offset: int = 0) -> Reader:
        self.offsets.append(offset)
        return super().open(offset) if len(self.offsets) > 1 else _BreakingReader(self)


class _BreakingReader(Reader):
    def __init__(self, content: Breaking) -> None:
        self._content = content
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._at >= self._content._after:
            raise self._content._error
        piece = self._content.data[self._at : self._at + min(len(buffer), self._content._after - self._at)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


@pytest.fixture
def store(tmp_path: Path) -> LayoutStore:
    return LayoutStore(tmp_path / "layout", create=True)


def parts(store: LayoutStore) -> list[Path]:
    return list(store.path.glob(".*.part"))


def test_a_broken_line_leaves_a_part_and_the_next_process_goes_on(store: LayoutStore) -> None:
    content = Breaking(DATA, NetworkError("the line broke"))
    counted: list[int] = []
    with pytest.raises(NetworkError):
        store.push_blob(BLOB, content)
    assert [each.stat().st_size for each in parts(store)] == [2 * MiB]
    assert not store.has_blob(BLOB)
    store.push_blob(BLOB, content, counted.append)
    assert content.offsets == [0, 2 * MiB]
    assert sum(counted) == len(DATA)
    assert store.read_blob(BLOB, len(DATA)) == DATA
    assert not parts(store)


@pytest.mark.parametrize("after", [0, MiB - 1])
def test_little_is_not_worth_keeping(store: LayoutStore, after: int) -> None:
    with pytest.raises(NetworkError):
        store.push_blob(BLOB, Breaking(DATA, NetworkError("the line broke"), after))
    assert not parts(store)


def test_an_error_that_stays_leaves_nothing(store: LayoutStore) -> None:
    with pytest.raises(IntegrityError):
        store.push_blob(BLOB, Breaking(DATA, IntegrityError("it is damaged")))
    assert not parts(store)


@pytest.mark.parametrize("left", [b"\0" * MiB, DATA + b"more", DATA[:-1] + b"?", DATA])
def test_whatever_was_left_the_blob_is_right(store: LayoutStore, left: bytes) -> None:
    (store.path / f".ocibridge-{BLOB.digest[7:]}.part").write_bytes(left)
    counted: list[int] = []
    store.push_blob(BLOB, BytesContent(DATA), counted.append)
    assert store.read_blob(BLOB, len(DATA)) == DATA
    assert sum(counted) == len(DATA)
    assert not parts(store)


def test_wrong_bytes_are_found_out_with_and_without_a_part(store: LayoutStore) -> None:
    for left in (b"", DATA[:MiB]):
        (store.path / f".ocibridge-{BLOB.digest[7:]}.part").write_bytes(left)
        for wrong in (DATA[:-1] + b"?", DATA[:-1], DATA + b"?"):
            with pytest.raises(IntegrityError):
                store.push_blob(BLOB, BytesContent(wrong))
            assert not store.has_blob(BLOB)
            assert not parts(store)


def test_while_another_process_writes_the_same_blob_this_one_writes_it_too(store: LayoutStore) -> None:
    part = store.path / f".ocibridge-{BLOB.digest[7:]}.part"
    part.write_bytes(DATA[: 2 * MiB])
    code = f"""
import os, sys
from ocibridge.io.locks import try_lock
assert try_lock(os.open({str(part)!r}, os.O_RDWR))
print("held", flush=True)
sys.stdin.read()
"""
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        store.push_blob(BLOB, BytesContent(DATA))
        assert part.read_bytes() == DATA[: 2 * MiB]
        other.communicate()
    assert store.read_blob(BLOB, len(DATA)) == DATA


def test_parts_that_nobody_wants_any_more_are_swept(store: LayoutStore) -> None:
    old, young, foreign = (store.path / name for name in (".ocibridge-1.part", ".ocibridge-2.part", "x.part"))
    for each in (old, young, foreign):
        each.write_bytes(b"")
        os.utime(each, (time.time() - STALE - 10,) * 2 if each != young else None)
    sweep(store.path)
    assert not old.exists()
    assert young.exists()
    assert foreign.exists()


def test_blobs_of_a_store_are_copied_by_the_system(store: LayoutStore, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "blob").write_bytes(DATA)
    copied: list[int] = []
    genuine = filling.copy_at

    def watched(*args: int) -> int:
        copied.append(genuine(*args))
        return copied[-1]

    monkeypatch.setattr(filling, "copy_at", watched)
    store.push_blob(BLOB, FileContent(tmp_path / "blob", lasting=True))
    assert store.read_blob(BLOB, len(DATA)) == DATA
    assert sum(copied) == len(DATA) or not hasattr(os, "copy_file_range")
    copied.clear()
    other = LayoutStore(tmp_path / "other", create=True)
    # Files of the user may change between being read and being copied.
    other.push_blob(BLOB, FileContent(tmp_path / "blob"))
    assert not copied


def test_where_the_system_cannot_copy_it_is_written(store: LayoutStore, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "blob").write_bytes(DATA)

    def refuse(*_: object) -> int:
        raise OSError("not between these")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    store.push_blob(BLOB, FileContent(tmp_path / "blob", lasting=True))
    assert store.read_blob(BLOB, len(DATA)) == DATA


def test_disk_full_in_the_middle(store: LayoutStore, monkeypatch: Any) -> None:
    genuine = filling.write_at

    def full(handle: int, view: memoryview, offset: int) -> int:
        if offset >= 2 * MiB:
            raise OSError(28, os.strerror(28))
        return genuine(handle, view, offset)

    monkeypatch.setattr(filling, "write_at", full)
    with pytest.raises(DestinationError, match="no space left"):
        store.push_blob(BLOB, BytesContent(DATA))
    monkeypatch.undo()
    assert [each.stat().st_size for each in parts(store)] == [2 * MiB]
    store.push_blob(BLOB, BytesContent(DATA))
    assert store.read_blob(BLOB, len(DATA)) == DATA
