# SPDX-License-Identifier: Apache-2.0
"""Going on: what an earlier process has left is read again, only the rest is fetched, and damage is found out."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from ocibridge.dialects.choices import Compress, Layers
from ocibridge.dialects.reading import parse_manifest, read_artifact
from ocibridge.dialects.writing import PlanOptions, plan_manifest
from ocibridge.errors import FormatError, IntegrityError, NetworkError
from ocibridge.formats.base import Sink
from ocibridge.formats.carton.options import CartonReadOptions, CartonWriteOptions
from ocibridge.formats.carton.reader import read_carton
from ocibridge.formats.carton.writer import CartonFolderSink, CartonZipSink
from ocibridge.io.readers import Reader
from ocibridge.oci import Descriptor
from ocibridge.settings import DEFAULT_LIMITS, MiB
from ocibridge.stores.layout import LayoutStore
from ocibridge.transfer import Progress, Task, publish, restore
from ocibridge.transfer.restore import Restored
from ocibridge.transfer.resume import LayerResume

from ..formats.build import carton

FILES = {
    "model/weights.bin": hashlib.shake_128(b"w").digest(9 * MiB),
    "model/a.bin": hashlib.shake_128(b"a").digest(3 * MiB),
    "model/again.bin": hashlib.shake_128(b"a").digest(3 * MiB),
    "model/b.bin": hashlib.shake_128(b"b").digest(2 * MiB + 17),
    "model/empty": b"",
    **{f"model/{number:03}.txt": b"x" * number for number in range(50)},
}
FORMS = [(Layers.TAR, Compress.NONE), (Layers.RAW_FILES, Compress.NONE), (Layers.TAR, Compress.ZSTD)]


class Breaking(LayoutStore):
    """A layout whose line breaks, and that counts what it gives.

    Attributes:
        left: Bytes until the line breaks; None is never.
        given: Bytes that were given.
        offsets: Where each blob was asked for.
    """

    left: int | None = None
    given = 0

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        return _Counted(self, super()._open_blob(descriptor, offset))


class _Counted(Reader):
    def __init__(self, store: Breaking, reader: Reader) -> None:
        self._store = store
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._store.left is not None:
            if self._store.left <= 0:
                raise NetworkError("the line broke")
            view = view[: self._store.left]
        count = self._reader.readinto(view) or 0
        self._store.given += count
        if self._store.left is not None:
            self._store.left -= count
        return count

    def close(self) -> None:
        self._reader.close()
        super().close()


class Place:
    """An artifact in a layout, and a target that it is restored to."""

    def __init__(self, folder: Path, layers: Layers, compress: Compress, name: str) -> None:
        self.store = Breaking(folder / "layout", create=True)
        source = read_carton(carton(folder / "source.carton", FILES), CartonReadOptions())
        publish(plan_manifest(source, PlanOptions(layers, compress)), self.store, "v1")
        data = self.store.fetch_manifest("v1")[1]
        manifest = parse_manifest(data, "it")
        self.artifact = read_artifact(manifest, self.store.read_blob(manifest.config, MiB), "it")
        self.size = sum(layer.descriptor.size for layer in self.artifact.layers)
        self.store.given = 0
        (folder / "out").mkdir()
        self.dest = folder / "out" / name
        self.workspace = folder / "out" / f".{name}.ocibridge"

    def sink(self) -> Sink:
        kind = CartonZipSink if self.dest.suffix else CartonFolderSink
        return kind(self.dest, self.artifact.model, CartonWriteOptions(key="key"))

    def restore(self, left: int | None = None) -> Restored:
        self.store.left = left
        with self.sink() as sink:
            return restore(self.artifact.layers, self.store, sink, concurrency=1)

    def breaks(self, left: int) -> None:
        with pytest.raises(NetworkError):
            self.restore(left)
        assert not self.dest.exists()

    def right(self) -> None:
        if self.dest.suffix:
            with zipfile.ZipFile(self.dest) as archive:
                assert {name: archive.read(name) for name in FILES} == FILES
        else:
            assert {name: (self.dest / name).read_bytes() for name in FILES} == FILES
        assert list(self.dest.parent.iterdir()) == [self.dest]


@pytest.fixture(params=["back", "back.carton"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("layers", "compress"), FORMS)
@pytest.mark.parametrize("breaks", [[2 * MiB], [10 * MiB], [13 * MiB], [3 * MiB, 3 * MiB, 3 * MiB, 3 * MiB, MiB]])
def test_only_the_rest_is_fetched(
    tmp_path: Path, layers: Layers, compress: Compress, breaks: Sequence[int], name: str
) -> None:
    place = Place(tmp_path, layers, compress, name)
    for left in breaks:
        place.breaks(left)
    before = place.store.given
    done = place.restore()
    place.right()
    assert done.kept + place.store.given - before == place.size
    assert done.kept > sum(breaks) - (MiB + 200_000) * len(breaks)


def damage(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(MiB // 2)
        file.write(b"damage")


@pytest.mark.parametrize(("layers", "compress"), FORMS)
@pytest.mark.parametrize("left", [5 * MiB, 12 * MiB])
def test_damaged_bytes_are_found_and_fetched_again(
    tmp_path: Path, layers: Layers, compress: Compress, left: int, name: str
) -> None:
    place = Place(tmp_path, layers, compress, name)
    place.breaks(left)
    files = [path for path in place.workspace.rglob("*") if path.is_file() and path.stat().st_size > MiB]
    assert files
    for path in files:
        damage(path)
    counts: dict[str, int] = {}

    class Counting(Progress):
        def advance(self, task: Task, count: int) -> None:
            counts[task.label] = counts.get(task.label, 0) + count

    place.store.left = None
    with place.sink() as sink:
        done = restore(place.artifact.layers, place.store, sink, concurrency=1, progress=Counting())
    place.right()
    assert done.kept < place.size
    assert sum(counts.values()) == place.size, "what was taken back does not count"


@pytest.mark.parametrize(("layers", "compress"), FORMS)
def test_missing_and_cut_files(tmp_path: Path, layers: Layers, compress: Compress) -> None:
    place = Place(tmp_path, layers, compress, "back")
    place.breaks(13 * MiB)
    os.truncate(place.workspace / "new" / "model" / "weights.bin", 100)
    for path in (place.workspace / "new").rglob("00*.txt"):
        path.unlink()
    place.restore()
    place.right()


def test_a_link_in_the_place_of_a_kept_file_is_not_followed(tmp_path: Path) -> None:
    place = Place(tmp_path, Layers.RAW_FILES, Compress.NONE, "back")
    place.breaks(5 * MiB)
    kept = place.workspace / "new" / "model" / "weights.bin"
    (tmp_path / "elsewhere").write_bytes(FILES["model/weights.bin"])
    kept.unlink()
    kept.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="cannot write"):
        place.restore()
    assert (tmp_path / "elsewhere").read_bytes() == FILES["model/weights.bin"]
    assert not place.dest.exists()


def test_what_is_no_longer_asked_for_goes(tmp_path: Path) -> None:
    place = Place(tmp_path, Layers.TAR, Compress.NONE, "back")
    place.breaks(5 * MiB)
    (place.workspace / "new" / "model" / "stranger").write_bytes(b"x")
    place.restore()
    assert not (place.dest / "model" / "stranger").exists()
    place.right()


def test_a_disk_without_room_for_the_blob_beside_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ocibridge.transfer import spool

    class Full:
        def __init__(self, handle: int, kept: int) -> None:
            self.count = 0

        def write(self, data: memoryview) -> None:
            self.count += len(data)
            if self.count > 2 * MiB:
                raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool, "PositionedWriter", Full)
    place = Place(tmp_path, Layers.TAR, Compress.ZSTD, "back")
    place.restore()
    place.right()


def test_too_many_headers_are_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ocibridge.transfer import resume

    monkeypatch.setattr(resume, "MAX_GAPS", 5000)
    monkeypatch.setattr(resume, "tar_gap", lambda *_: b"")  # so that no header is one of ours
    place = Place(tmp_path, Layers.TAR, Compress.NONE, "back")
    place.breaks(14 * MiB)
    place.restore()
    place.right()


def test_symbolic_links_arrive_again(tmp_path: Path, name: str) -> None:
    """The bytes of a link are hashed and not kept, so what follows it in its layer cannot be, either."""
    place = Place(tmp_path, Layers.TAR, Compress.NONE, name)
    files = tuple(
        file._replace(symlink="a.bin") if file.path == "model/again.bin" else file
        for file in place.artifact.model.files
    )
    place.artifact = place.artifact._replace(model=replace(place.artifact.model, files=files))
    place.breaks(15 * MiB)
    place.store.given = 0
    place.restore()
    with zipfile.ZipFile(place.dest) if place.dest.suffix else nullcontext() as archive:
        if archive:
            assert archive.read("model/again.bin") == b"a.bin"
        else:
            assert (place.dest / "model" / "again.bin").readlink() == Path("a.bin")


def test_headers_of_another_tool_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ocibridge.transfer import resume

    place = Place(tmp_path, Layers.TAR, Compress.NONE, "back")
    place.breaks(13 * MiB)
    ours = (place.workspace / "journal").stat().st_size
    place.restore()
    place.right()
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other", Layers.TAR, Compress.NONE, "back")
    monkeypatch.setattr(resume, "tar_gap", lambda *_: b"")
    other.breaks(13 * MiB)
    assert (other.workspace / "journal").stat().st_size > ours + 1000
    done = other.restore()
    other.right()
    assert done.kept > 12 * MiB - 200_000


@pytest.mark.parametrize(("layers", "compress"), FORMS)
def test_a_layer_is_noted_as_whole_after_its_digest_is_right(
    tmp_path: Path, layers: Layers, compress: Compress
) -> None:
    place = Place(tmp_path, layers, compress, "back")
    layer = place.artifact.layers[0]
    blob = tmp_path / "layout" / "blobs" / "sha256" / layer.descriptor.digest[7:]
    blob.chmod(0o600)
    with open(blob, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    with place.sink() as sink:
        assert sink.journal
        resumption = LayerResume(layer, sink, sink.journal, 0)
        with pytest.raises((IntegrityError, FormatError)):
            for each in resumption.files_of(place.store, lambda _: None, DEFAULT_LIMITS):
                assert len(each.reader.read(each.size)) == each.size
        assert all(entry.path for entry in sink.journal.entries(f"0-{layer.descriptor.digest[7:]}"))
