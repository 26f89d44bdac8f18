# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ocibridge.errors import DestinationError, FormatError, IntegrityError, LimitError, NotFound, SourceError
from ocibridge.io.content import BytesContent
from ocibridge.io.hasher import BackgroundHasher
from ocibridge.io.readers import chunks
from ocibridge.oci import Descriptor
from ocibridge.stores import volumewriter
from ocibridge.stores.archive import ArchiveStore
from ocibridge.stores.archivewriter import ArchiveWriter
from ocibridge.stores.imageindex import ImageIndex
from ocibridge.stores.tarlayout import Slice
from ocibridge.stores.volumes import LEAST_SIZE, Volumes
from ocibridge.stores.volumewriter import VolumeWriter

from .samples import LAYER, files, read

DATA = os.urandom(3 * LEAST_SIZE + 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.tar"


@pytest.fixture
def beside() -> Iterator[BackgroundHasher]:
    with BackgroundHasher(thread=True) as found:
        yield found


@pytest.fixture
def written(path: Path, beside: BackgroundHasher) -> Path:
    writer = VolumeWriter(path, LEAST_SIZE, beside)
    writer.write(DATA)
    writer.publish()
    return path


def volume(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number:03}")


def content(path: Path) -> bytes:
    with Volumes(path).content.open() as reader:
        return b"".join(bytes(chunk) for chunk in chunks(reader))


class TestWriting:
    def test_form(self, written: Path) -> None:
        names = ["x.tar.001", "x.tar.002", "x.tar.003", "x.tar.004", "x.tar.sha256"]
        found = files(written.parent)
        assert list(found) == names
        assert [len(found[name]) for name in names[:4]] == [LEAST_SIZE] * 3 + [1000]
        assert b"".join(found[name] for name in names[:4]) == DATA
        lines = [f"{hashlib.sha256(found[name]).hexdigest()}  {name}\n" for name in names[:4]]
        assert found["x.tar.sha256"].decode() == "".join(lines)

    def test_what_is_returned(self, path: Path, beside: BackgroundHasher) -> None:
        writer = VolumeWriter(path, LEAST_SIZE, beside)
        writer.write(DATA)
        for each in writer.publish():
            data = each.path.read_bytes()
            assert (each.size, each.digest) == (len(data), "sha256:" + hashlib.sha256(data).hexdigest())

    def test_not_split(self, path: Path, beside: BackgroundHasher) -> None:
        writer = VolumeWriter(path, None, beside)
        writer.write(DATA)
        (only,) = writer.publish()
        assert (only.path, only.size, only.digest) == (path, len(DATA), None)
        assert files(path.parent) == {"x.tar": DATA}

    @pytest.mark.parametrize("count", [LEAST_SIZE - 1, LEAST_SIZE, LEAST_SIZE + 1, 2 * LEAST_SIZE])
    def test_ends(self, path: Path, beside: BackgroundHasher, count: int) -> None:
        writer = VolumeWriter(path, LEAST_SIZE, beside)
        for start in range(0, count, 1000):
            writer.write(DATA[start : min(count, start + 1000)])
        assert len(writer.publish()) == -(-count // LEAST_SIZE)
        assert content(path) == DATA[:count]
        Volumes(path).verify()

    def test_too_small(self, path: Path, beside: BackgroundHasher) -> None:
        with pytest.raises(LimitError, match="too small; give 65536 bytes or more"):
            VolumeWriter(path, LEAST_SIZE - 1, beside)

    def test_too_many(self, path: Path, beside: BackgroundHasher, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(volumewriter, "MOST", 2)
        writer = VolumeWriter(path, LEAST_SIZE, beside)
        with pytest.raises(LimitError, match="more than 2 volumes; make them larger"):
            writer.write(DATA)
        writer.close()
        assert files(path.parent) == {}

    @pytest.mark.parametrize("name", ["a\nb.tar", "a\\b.tar"])
    def test_names_that_a_list_cannot_hold(self, path: Path, beside: BackgroundHasher, name: str) -> None:
        with pytest.raises(DestinationError, match="line break or a backslash"):
            VolumeWriter(path.with_name(name), None, beside)

    def test_names_that_are_patterns(self, path: Path, beside: BackgroundHasher) -> None:
        writer = VolumeWriter(path.with_name("[x]*.tar"), LEAST_SIZE, beside)
        writer.write(DATA)
        writer.publish()
        assert content(path.with_name("[x]*.tar")) == DATA

    def test_the_list_is_one_of_sha256sum(self, written: Path) -> None:
        tool = ["sha256sum"] if shutil.which("sha256sum") else ["shasum", "-a", "256"]
        done = subprocess.run([*tool, "--check", "x.tar.sha256"], cwd=written.parent, capture_output=True)
        assert (done.returncode, done.stdout.count(b": OK")) == (0, 4)

    def test_stopped_while_the_volumes_get_their_names(
        self, path: Path, beside: BackgroundHasher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They are not taken for an archive before the last of them and the list are there."""
        renamed: list[Path] = []
        replace = Path.replace

        def once(self: Path, target: Path) -> Path:
            if len(renamed) == 2:
                raise KeyboardInterrupt
            renamed.append(target)
            return replace(self, target)

        writer = VolumeWriter(path, LEAST_SIZE, beside)
        writer.write(DATA)
        monkeypatch.setattr(Path, "replace", once)
        with pytest.raises(KeyboardInterrupt):
            writer.publish()
        writer.close()
        assert list(files(path.parent)) == ["x.tar.001", "x.tar.002"]
        with pytest.raises(NotFound, match=r"there is no .*x\.tar\.sha256, which belongs to the volumes; copy it"):
            Volumes(path).verify()


class TestReading:
    def test_whole(self, written: Path) -> None:
        found = Volumes(written)
        assert (content(written), found.size, found.split) == (DATA, len(DATA), True)
        told: list[int] = []
        found.verify(told.append)
        assert sum(told) == len(DATA)

    def test_the_whole_file_comes_first(self, written: Path) -> None:
        written.write_bytes(b"whole")
        assert (content(written), Volumes(written).split) == (b"whole", False)
        Volumes(written).verify()

    def test_put_together(self, written: Path) -> None:
        parts = [each.read_bytes() for each in Volumes(written).files]
        written.write_bytes(b"".join(parts))
        assert content(written) == DATA

    @pytest.mark.parametrize("offset", [0, 1, LEAST_SIZE - 1, LEAST_SIZE, 2 * LEAST_SIZE + 5, len(DATA)])
    def test_slices_cross_the_borders(self, written: Path, offset: int) -> None:
        part = Slice(Volumes(written).content, 10, len(DATA) - 20, "part")
        with part.open(min(offset, part.size)) as reader:
            assert reader.readall() == DATA[10:-10][offset:]

    @pytest.mark.parametrize("number", [1, 2, 4])
    @pytest.mark.parametrize("listed", [True, False])
    def test_a_volume_is_missing(self, written: Path, number: int, listed: bool) -> None:
        volume(written, number).unlink()
        if not listed:
            written.with_name("x.tar.sha256").unlink()
        if number == 4 and not listed:
            assert content(written) == DATA[: 3 * LEAST_SIZE]  # nobody can tell but who reads what is in it
            return
        with pytest.raises(NotFound, match=rf"the volume .*x\.tar\.00{number} is missing; copy all volumes"):
            Volumes(written)

    def test_two_volumes_are_missing(self, written: Path) -> None:
        for number in (2, 3):
            volume(written, number).unlink()
        with pytest.raises(NotFound, match=r"x\.tar\.002 and 1 more is missing"):
            Volumes(written)

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_a_volume_is_short(self, written: Path, number: int) -> None:
        os.truncate(volume(written, number), 100)
        with pytest.raises(
            IntegrityError, match=r"the volume .*has 100 bytes|has 65536 bytes, and x\.tar\.001 has 100"
        ):
            Volumes(written)

    @pytest.mark.parametrize("size", [0, LEAST_SIZE + 1])
    def test_the_last_volume_has_an_impossible_size(self, written: Path, size: int) -> None:
        os.truncate(volume(written, 4), size)
        with pytest.raises(IntegrityError, match=rf"x\.tar\.004 has {size} bytes; copy it again"):
            Volumes(written)

    @pytest.mark.parametrize("number", [1, 3, 4])
    def test_a_volume_is_damaged(self, written: Path, number: int) -> None:
        data = bytearray(volume(written, number).read_bytes())
        data[50] ^= 1
        volume(written, number).write_bytes(data)
        with pytest.raises(IntegrityError, match=rf"x\.tar\.00{number} is damaged .* copy this volume again"):
            Volumes(written).verify()

    def test_the_last_volume_is_short(self, written: Path) -> None:
        os.truncate(volume(written, 4), 999)
        with pytest.raises(IntegrityError, match=r"x\.tar\.004 is damaged"):
            Volumes(written).verify()

    def test_a_volume_too_many(self, written: Path) -> None:
        volume(written, 5).write_bytes(b"of another archive")
        with pytest.raises(SourceError, match=r"x\.tar\.005 is not in x\.tar\.sha256; remove it"):
            Volumes(written)

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            (lambda text: text.replace("x.tar.001", "../x.tar.001"), "no list of the volumes"),
            (lambda text: text.replace("x.tar.001", "y.tar.001"), "no list of the volumes"),
            (lambda text: text.replace("x.tar.001", "x.tar.002"), "no list of the volumes"),
            (lambda text: text.replace("x.tar.001", "x.tar.1"), "no list of the volumes"),
            (lambda text: "zz" + text[2:], "no list of the volumes"),
            (lambda text: text + "\n", "no list of the volumes"),
            (lambda text: "\udcff" + text, "is not UTF-8"),
        ],
    )
    def test_lists_that_are_none(self, written: Path, change: Callable[[str], str], error: str) -> None:
        list_path = written.with_name("x.tar.sha256")
        list_path.write_bytes(change(list_path.read_text()).encode("utf-8", "surrogateescape"))
        with pytest.raises(FormatError, match=error):
            Volumes(written)

    def test_a_list_beyond_the_limit(self, written: Path) -> None:
        written.with_name("x.tar.sha256").write_bytes(b"0" * (1024 * 1024 + 1))
        with pytest.raises(LimitError):
            Volumes(written)

    def test_other_files_do_not_matter(self, written: Path) -> None:
        for name in ("x.tar.0001", "x.tar.abc", "x.tar.01", "x.tar.001.bak", "xxtar.001"):
            written.with_name(name).write_bytes(b"")
        assert content(written) == DATA


def test_a_bundle_ends_early(path: Path) -> None:
    blob = Descriptor.of(DATA, LAYER)
    with ArchiveWriter(path, LEAST_SIZE) as writer:
        writer.add(blob, BytesContent(DATA))
        writer.publish(ImageIndex.of([]))
    assert read(ArchiveStore(path), blob) == DATA
    path.with_name("x.tar.sha256").unlink()
    volume(path, 4).unlink()
    with pytest.raises(
        IntegrityError, match=r"x\.tar ends too early; the last volume was not copied whole, or one behind"
    ):
        ArchiveStore(path)
