# SPDX-License-Identifier: Apache-2.0
"""The digest cache: what it knows again, and all that it must not take for known."""

from __future__ import annotations

import os
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ocibridge.formats.zip.content import MemberContent
from ocibridge.formats.zip.reader import read_directory
from ocibridge.io.content import BytesContent, Content, FileContent
from ocibridge.layers import Encoding, Layer, LayerDigests, describe
from ocibridge.model import ModelFile, Role
from ocibridge.transfer import DigestCache
from ocibridge.transfer import cache as module
from ocibridge.transfer.cache import FILE, layer_key


@pytest.fixture(autouse=True)
def fsync_alld(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are young; only `test_a_young_file_is_not_kept` wants to see that."""
    monkeypatch.setattr(module, "SETTLED", -(10**12))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def weight(tmp_path: Path) -> Path:
    path = tmp_path / "weight"
    path.write_bytes(b"w" * 1000)
    return path


def layer(content: Content, encoding: Encoding = Encoding.TAR, path: str = "w", sha256: str | None = None) -> Layer:
    return Layer((ModelFile(path, Role.WEIGHT, content, sha256),), encoding)


def keep(folder: Path, made: Layer) -> LayerDigests:
    with DigestCache(folder) as cache:
        key, digests = layer_key(made), describe(made)
        cache.put(made, key, digests)
        assert cache.get(made, key) == digests
    return digests


def look(folder: Path, made: Layer) -> LayerDigests | None:
    with DigestCache(folder) as cache:
        return cache.get(made, layer_key(made))


@pytest.mark.parametrize("encoding", list(Encoding))
def test_the_next_process_knows(folder: Path, weight: Path, encoding: Encoding) -> None:
    made = layer(FileContent(weight), encoding)
    assert look(folder, made) is None
    digests = keep(folder, made)
    assert look(folder, layer(FileContent(weight), encoding)) == digests


def test_what_changed_between_listing_and_reading_is_not_kept(folder: Path, weight: Path) -> None:
    listed = layer(FileContent(weight, seen=FileContent(weight).stamp()))
    weight.write_bytes(b"x" * 1000)
    os.utime(weight, (2, 2))
    with DigestCache(folder) as cache:
        cache.put(listed, layer_key(listed), describe(listed))
        assert cache.get(listed, layer_key(listed)) is None
    assert look(folder, layer(FileContent(weight))) is None


def longer(path: Path) -> Layer:
    path.write_bytes(b"w" * 1001)
    return layer(FileContent(path))


def newer(path: Path) -> Layer:
    os.utime(path, (1, 1))
    return layer(FileContent(path))


def replaced(path: Path) -> Layer:
    path.rename(path.with_name("old"))
    path.write_bytes(b"w" * 1000)
    return layer(FileContent(path))


def gone(path: Path) -> Layer:
    made = layer(FileContent(path))
    path.unlink()
    return made


CHANGES: dict[str, Callable[[Path], Layer]] = {
    "longer": longer,
    "newer": newer,
    "replaced": replaced,
    "gone": gone,
    "another path": lambda path: layer(FileContent(path), path="v"),
    "another offset": lambda path: layer(FileContent(path, 1)),
    "a shorter range": lambda path: layer(FileContent(path, 0, 999)),
    "another encoding": lambda path: layer(FileContent(path), Encoding.RAW),
    "compressed": lambda path: layer(FileContent(path), Encoding.TAR_GZIP),
    "a promise that it breaks": lambda path: layer(FileContent(path), sha256="0" * 64),
    "one more file": lambda path: Layer(
        (*layer(FileContent(path)).files, ModelFile("x", Role.WEIGHT, BytesContent(b""))), Encoding.TAR
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_part_of_the_key_counts(folder: Path, weight: Path, change: str) -> None:
    keep(folder, layer(FileContent(weight)))
    assert look(folder, CHANGES[change](weight)) is None


def test_the_codec_is_part_of_the_key(folder: Path, weight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, level in ((Encoding.TAR_GZIP, "GZIP_LEVEL"), (Encoding.TAR_ZSTD, "ZSTD_LEVEL")):
        made = layer(FileContent(weight), encoding)
        keep(folder, made)
        monkeypatch.setattr(module, level, 1)
        assert look(folder, made) is None


def test_a_promise_that_is_kept_is_a_hit(folder: Path, weight: Path) -> None:
    digests = keep(folder, layer(FileContent(weight)))
    assert look(folder, layer(FileContent(weight), sha256=digests.files[0])) == digests


def test_a_young_file_is_not_kept(folder: Path, weight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED", 10**12)
    made = layer(FileContent(weight))
    with DigestCache(folder) as cache:
        cache.put(made, layer_key(made), describe(made))
    assert look(folder, made) is None


def test_a_file_that_changes_while_it_is_hashed_is_not_kept(folder: Path, weight: Path) -> None:
    made = layer(FileContent(weight))
    with DigestCache(folder) as cache:
        key, digests = layer_key(made), describe(made)
        weight.write_bytes(b"v" * 1000)
        cache.put(made, key, digests)
        assert cache.get(made, key) is None


def test_members_of_an_archive_are_told_apart(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one", b"1" * 100)
        archive.writestr("two", b"2" * 100)
    members = {member.name: MemberContent(path, member) for member in read_directory(path)}
    keep(folder, layer(members["one"]))
    assert look(folder, layer(members["one"])) is not None
    assert look(folder, layer(members["two"])) is None
    packed = replace(members["one"].member, method=8)
    assert look(folder, layer(MemberContent(path, packed))) is None


def test_contents_without_a_stamp_are_always_read(folder: Path) -> None:
    class Unknown:
        size = 1

        def open(self, offset: int = 0) -> object:
            return BytesContent(b"x").open(offset)

    made = layer(Unknown())  # type: ignore[arg-type]
    assert layer_key(made) is None
    with DigestCache(folder) as cache:
        cache.put(made, None, describe(made))
        assert cache.get(made, None) is None


def test_bytes_are_known_by_their_hash() -> None:
    assert BytesContent(b"x").stamp() == BytesContent(b"x").stamp()
    assert BytesContent(b"x").stamp() != BytesContent(b"y").stamp()


@pytest.mark.parametrize(
    "damage", ["digests = 'x'", "digests = NULL", "digests = replace(digests, 'sha256:', 'sha256:0')"]
)
def test_a_damaged_row_is_a_miss(folder: Path, weight: Path, damage: str) -> None:
    made = layer(FileContent(weight))
    keep(folder, made)
    with sqlite3.connect(folder / FILE) as connection:
        assert connection.execute(f"UPDATE digests SET {damage}").rowcount == 1
    connection.close()
    assert look(folder, made) is None
    assert keep(folder, made)


def test_a_row_of_another_key_is_a_miss(folder: Path, weight: Path) -> None:
    """Such as a file system might leave after a power cut: whole rows, in the wrong places."""
    keep(folder, layer(FileContent(weight)))
    with sqlite3.connect(folder / FILE) as connection:
        key = layer_key(layer(FileContent(weight, 1)))
        assert key
        connection.execute("UPDATE digests SET key = ?", (key.text,))
    connection.close()
    assert look(folder, layer(FileContent(weight, 1))) is None


def test_the_file_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 256 * 1024)
    files = tuple(ModelFile(str(number), Role.DOC, BytesContent(b"")) for number in range(100))
    digests = describe(Layer(files, Encoding.TAR))
    with DigestCache(folder) as cache:
        for number in range(100):
            made = Layer((*files, ModelFile("last", Role.DOC, BytesContent(b"%d" % number))), Encoding.TAR)
            cache.put(made, layer_key(made), digests._replace(files=(*digests.files, "0" * 64)))
    assert (folder / FILE).stat().st_size < 400 * 1024
    with sqlite3.connect(folder / FILE) as connection:
        assert 5 < connection.execute("SELECT count(*) FROM digests").fetchone()[0] < 100
    connection.close()


def test_what_is_used_stays(folder: Path, weight: Path) -> None:
    made = layer(FileContent(weight))
    keep(folder, made)
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE digests SET used = 1")
        connection.commit()
        assert look(folder, made) is not None
        assert connection.execute("SELECT used > 1 FROM digests").fetchone() == (1,)
    connection.close()
