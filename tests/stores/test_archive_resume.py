# SPDX-License-Identifier: Apache-2.0
"""A bundle that an earlier writer has left unfinished, and the next writer of it."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocibridge.errors import AuthenticationError, DestinationError, IntegrityError, NetworkError, NotFound
from ocibridge.io.atomic import AtomicFile, check_place
from ocibridge.io.content import BytesContent
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.io.hasher import BackgroundHasher
from ocibridge.io.readers import Reader
from ocibridge.oci import Descriptor
from ocibridge.settings import MiB
from ocibridge.stores.archive import ArchiveStore
from ocibridge.stores.archivewriter import ArchiveWriter
from ocibridge.stores.imageindex import ImageIndex
from ocibridge.stores.volumes import LEAST_SIZE, Volumes, list_path
from ocibridge.stores.volumewriter import VolumeWriter

from .samples import LAYER, files, read

BLOBS = [random.Random(number).randbytes(MiB + number) for number in range(4)]
VOLUME = 300_000
SIZES = [None, VOLUME]


@dataclass
class Asked:
    """A blob that notes from where on it was read, and can break."""

    data: bytes
    breaks: int | None = None
    opened: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)

    def open(self, offset: int = 0) -> Reader:
        self.opened.append(offset)
        if self.breaks is not None:
            return _Breaking(self.data[offset : self.breaks])
        return BytesContent(self.data).open(offset)


class _Breaking(io.RawIOBase):
    """Gives some bytes, and then fails."""

    def __init__(self, data: bytes) -> None:
        self._reader = BytesContent(data).open()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._reader.readinto(buffer)
        if not count:
            raise NetworkError("the line broke")
        return count


def pack(path: Path, contents: Iterable[Asked], size: int | None) -> int:
    """Write a bundle of some blobs; how many bytes were there."""
    with ArchiveWriter(path, size) as writer:
        for each in contents:
            writer.add(Descriptor.of(each.data, LAYER), each)
        writer.publish(ImageIndex.of([]))
        return writer.kept


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.tar"


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> int | None:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def whole(tmp_path: Path, size: int | None) -> dict[str, bytes]:
    """The files of the bundle as an undisturbed writer makes them."""
    (tmp_path / "whole").mkdir()
    pack(tmp_path / "whole" / "x.tar", map(Asked, BLOBS), size)
    return files(tmp_path / "whole")


def interrupted(path: Path, size: int | None, at: int = 2 * MiB + 500_000) -> None:
    """Let a writer fail after so many bytes of blobs."""
    contents = []
    for data in BLOBS:
        contents.append(Asked(data, at if at < len(data) else None))
        at -= len(data)
        if at < 0:
            break
    with pytest.raises(NetworkError):
        pack(path, contents, size)


def left(path: Path) -> list[Path]:
    return sorted(path.parent.glob(".x.tar*.part"))


def test_the_next_writer_reads_only_the_rest(path: Path, size: int | None, whole: dict[str, bytes]) -> None:
    interrupted(path, size)
    assert left(path)
    contents = [Asked(data) for data in BLOBS]
    kept = pack(path, contents, size)
    assert [each.opened for each in contents[:2]] == [[], []]
    ((offset,),) = ([each.opened[0]] for each in contents[2:3])
    # Whole pieces only are written before a line breaks.
    assert 0 <= offset <= 500_000
    assert contents[3].opened == [0]
    assert kept >= len(BLOBS[0]) + len(BLOBS[1]) + offset
    assert {name: data for name, data in files(path.parent).items() if "/" not in name} == whole


def test_it_can_break_again_and_again(path: Path, size: int | None, whole: dict[str, bytes]) -> None:
    for at in (MiB + 5, 2 * MiB, 2 * MiB, 3 * MiB + 77_777, 4 * MiB):
        interrupted(path, size, at)
    assert pack(path, map(Asked, BLOBS), size) > 3 * MiB
    assert {name: data for name, data in files(path.parent).items() if "/" not in name} == whole


def test_too_little_is_not_kept(path: Path, size: int | None) -> None:
    interrupted(path, size, at=500_000)
    assert not left(path)


def test_other_blobs_take_the_place_of_what_was_left(path: Path, size: int | None, tmp_path: Path) -> None:
    interrupted(path, size)
    others = [BLOBS[0], BLOBS[3]]
    kept = pack(path, map(Asked, others), size)
    assert len(BLOBS[0]) <= kept < len(BLOBS[0]) + 10_000
    (tmp_path / "others").mkdir()
    pack(tmp_path / "others" / "x.tar", map(Asked, others), size)
    assert files(tmp_path / "others") == {name: data for name, data in files(path.parent).items() if "/" not in name}
    assert not left(path)


@pytest.mark.parametrize(("before", "after"), [(None, VOLUME), (VOLUME, None), (VOLUME, 2 * VOLUME), (VOLUME, 100_000)])
def test_volumes_of_another_size(path: Path, before: int | None, after: int | None) -> None:
    interrupted(path, before)
    pack(path, map(Asked, BLOBS), after)
    store = ArchiveStore(path)
    Volumes(path).verify()
    assert [read(store, Descriptor.of(data, LAYER)) for data in BLOBS] == BLOBS
    assert not left(path)


def test_what_was_left_and_is_damaged_is_not_taken_for_a_blob(path: Path, size: int | None) -> None:
    interrupted(path, size)
    with left(path)[-2 if size else 0].open("r+b") as file:
        file.seek(100_000)
        file.write(b"damaged")
    with pytest.raises(IntegrityError, match=r"what an interrupted run had left is damaged.*run the command again"):
        pack(path, map(Asked, BLOBS), size)
    assert not left(path)
    assert pack(path, map(Asked, BLOBS), size) == 0
    assert [read(ArchiveStore(path), Descriptor.of(data, LAYER)) for data in BLOBS] == BLOBS


def test_a_mistake_in_the_next_command_costs_nothing(path: Path, size: int | None) -> None:
    interrupted(path, size)
    before = {each: each.read_bytes() for each in left(path)}
    for problem in (NotFound("no such tag"), NetworkError("down"), AuthenticationError("who?"), KeyboardInterrupt()):
        with pytest.raises(type(problem)), ArchiveWriter(path, size):
            raise problem
    assert {each: each.read_bytes() for each in left(path)} == before
    assert pack(path, map(Asked, BLOBS), size) > 2 * MiB


def test_what_cannot_go_on_is_not_kept(path: Path, size: int | None) -> None:
    with pytest.raises(NotFound), ArchiveWriter(path, size) as writer:
        writer.add(Descriptor.of(BLOBS[3], LAYER), Asked(BLOBS[3]))
        raise NotFound("a blob is gone")
    assert not left(path)


def test_parts_of_other_archives_are_let_be(path: Path) -> None:
    names = [".x.tar2.001", ".x.tar2", ".x.tar.gz", ".x.tar.001.001", ".x.tarball.002"]
    others = [path.with_name(f"{name}.ocibridge-pack.part") for name in names]
    for each in others:
        each.write_bytes(b"of another")
    pack(path, map(Asked, BLOBS), VOLUME)
    assert sorted(each for each in others if each.exists()) == sorted(others)


def test_a_part_that_somebody_has_laid_there_is_not_followed(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_bytes(b"precious")
    part = path.with_name(".x.tar.ocibridge-pack.part")
    part.hardlink_to(victim)
    with pytest.raises(DestinationError, match=r"is no file of this program; remove it"):
        pack(path, map(Asked, BLOBS), None)
    part.unlink()
    part.symlink_to(victim)
    with pytest.raises(DestinationError):
        pack(path, map(Asked, BLOBS), None)
    assert victim.read_bytes() == b"precious"


def test_nobody_else_can_write_until_it_has_its_name(
    path: Path, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, tried = AtomicFile.publish, []

    def publishing(part: Any) -> None:
        with pytest.raises(DestinationError, match="another process is writing"):
            ArchiveWriter(path, size, rules=TargetRules(Existing.OVERWRITE))
        tried.append(part)
        publish(part)

    monkeypatch.setattr(AtomicFile, "publish", publishing)
    pack(path, map(Asked, BLOBS), size)
    assert tried


@pytest.mark.parametrize(("before", "after"), [(None, VOLUME), (VOLUME, None)])
def test_the_old_archive_is_there_until_the_new_one_is(
    path: Path, before: int | None, after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(path, map(Asked, BLOBS[:1]), before)
    there = {name for name in files(path.parent) if not name.endswith(".sha256")}
    publish, seen = AtomicFile.publish, []

    def publishing(part: Any) -> None:
        if part.target != list_path(path):
            seen.append(there <= set(files(path.parent)))
        publish(part)

    monkeypatch.setattr(AtomicFile, "publish", publishing)
    with ArchiveWriter(path, after, rules=TargetRules(Existing.OVERWRITE)) as writer:
        writer.publish(ImageIndex.of([]))
    assert seen
    assert all(seen)
    assert not there & set(files(path.parent))


def test_what_has_no_room_is_not_begun(path: Path, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path, size)
    there = sum(each.stat().st_size for each in left(path))
    wanted = sum(len(data) for data in BLOBS)
    usage = shutil.disk_usage(path.parent)
    for free, enough in ((wanted - there + 10_000, True), (wanted - there - 10_000, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        with suppress(KeyboardInterrupt), ArchiveWriter(path, size) as writer:
            if not enough:
                with pytest.raises(DestinationError, match=r"it needs 4\.0 MiB, and .* are free; free .* more"):
                    writer.need(map(len, BLOBS))
            else:
                writer.need(map(len, BLOBS))
            raise KeyboardInterrupt
        assert sum(each.stat().st_size for each in left(path)) == there


def test_volumes_without_room_for_their_list_get_no_names(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("ocibridge.stores.volumewriter.list_path", full)
        with pytest.raises(DestinationError, match="no space left"):
            pack(path, map(Asked, BLOBS), VOLUME)
    assert all(name.endswith(".part") for name in files(path.parent))
    assert pack(path, map(Asked, BLOBS), VOLUME) > 4 * MiB
    Volumes(path).verify()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 3),
    cuts=st.lists(st.integers(0, 5 * LEAST_SIZE), min_size=1, max_size=6),
    size=st.sampled_from([None, LEAST_SIZE, LEAST_SIZE + 1]),
    stop=st.integers(0, 5 * LEAST_SIZE),
    garbage=st.sampled_from([0, 1, 1000, LEAST_SIZE, 3 * LEAST_SIZE]),
    length=st.integers(0, 5 * LEAST_SIZE),
    other=st.integers(0, 5 * LEAST_SIZE),
)
def test_the_bytes_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    cuts: list[int],
    size: int | None,
    stop: int,
    garbage: int,
    length: int,
    other: int,
) -> None:
    """Whatever was left: the start of the same, followed by other bytes, of which more may be there than are wanted."""
    path = tmp_path_factory.mktemp("x") / "x.tar"
    data = random.Random(seed).randbytes(length)
    before = (data[:other] + b"\x00" * len(data[other:]))[:stop] + b"\xff" * garbage
    with BackgroundHasher(thread=True) as beside:
        first = VolumeWriter(path, size, beside)
        first.write(before)
        beside.wait()
        first.leave()
        second = VolumeWriter(path, size, beside)
        try:
            with second.ahead(1 << 40).open() as reader:
                assert reader.read() == before
            places = sorted({0, *(min(cut, length) for cut in cuts), length})
            for start, end in pairwise(places):
                second.write(data[start:end])
            second.publish()
        finally:
            second.close()
    assert before[: second.kept] == data[: second.kept]
    with Volumes(path).content.open() as reader:
        assert reader.read() == data
    Volumes(path).verify()
    assert not left(path)


@pytest.mark.parametrize("name", ["none/lock.json", "."])
def test_a_place_that_is_none_is_found_out_first(tmp_path: Path, name: str) -> None:
    with pytest.raises(DestinationError):
        check_place(tmp_path / name)
    check_place(tmp_path / "lock.json")
