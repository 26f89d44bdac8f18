# SPDX-License-Identifier: Apache-2.0
"""Looking into layers: what is named as a hazard, and how little is read."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ocibridge.errors import IntegrityError
from ocibridge.io.readers import ForwardingReader, Reader, byte_view
from ocibridge.oci import Descriptor
from ocibridge.stores.layout import LayoutStore
from ocibridge.volume import entries
from ocibridge.volume.entries import contents
from ocibridge.volume.overlay import Overlay

from .artifacts import LAYER, PACKERS, Bench, digest, member, predict, tar


class Counting(LayoutStore):
    """Counts the bytes that are read of blobs."""

    read = 0

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        return _Counted(super()._open_blob(descriptor, offset), self)


class _Counted(ForwardingReader):
    def __init__(self, source: Reader, store: Counting) -> None:
        self.source = source
        self._store = store

    def readinto(self, buffer: object, /) -> int:
        count = self.source.readinto(byte_view(buffer)) or 0
        self._store.read += count
        return count

    def close(self) -> None:
        self.source.close()
        super().close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Counting]:
    store = Counting(tmp_path / "layout", create=True)
    with store:
        yield store


def hazards(store: Counting, *archives: bytes) -> list[str]:
    Bench(store).image("v1", list(archives))
    found = predict(store, "v1", "containerd", None, "linux/amd64")
    assert found.verdict in ("mounts", "wrong"), found.reason
    return found.hazards


@pytest.mark.parametrize(
    ("archive", "expected"),
    [
        (tar(("ok", b"1"), member("link", tarfile.SYMTYPE, "/etc/passwd")), "outside of the volume"),
        (tar(("ok", b"1"), member("a/link", tarfile.SYMTYPE, "../../up")), "outside of the volume"),
        (tar(("ok", b"1"), ("../../etc/evil", b"1")), "leaves the root"),
        (tar(("ok", b"1"), ("/abs", b"1")), "leaves the root"),
        (tar(("ok", b"1"), member("null", tarfile.CHRTYPE)), "neither a file, a folder nor a link"),
        (tar(("ok", b"1"), member("pipe", tarfile.FIFOTYPE)), "neither a file, a folder nor a link"),
        (tar(("run", b"1"), mode=0o4755), "setuid"),
        (tar(("run", b"1"), mode=0o600), "by its owner only (mode 0600)"),
        (tar(("ok", b"1"), (".wh.gone", b"")), "whiteout"),
        (tar(("ok", b"1"), member("hard", tarfile.LNKTYPE, "nowhere")), "which is not there"),
    ],
)
def test_hazards_are_named(archive: bytes, expected: str, store: Counting) -> None:
    found = hazards(store, archive)
    assert len(found) == 1
    assert expected in found[0]


def test_harmless_links_are_no_hazard(store: Counting) -> None:
    archive = tar(
        ("a/ok", b"123"), member("a/link", tarfile.SYMTYPE, "../a/ok"), member("hard", tarfile.LNKTYPE, "a/ok")
    )
    assert hazards(store, archive) == []
    found = predict(store, "v1", "containerd")
    assert {each.path: (each.size, each.symlink) for each in found.files} == {
        "a/ok": (3, None),
        "a/link": (0, "../a/ok"),
        "hard": (3, None),
    }


def test_there_is_an_end_to_hazards(store: Counting) -> None:
    found = hazards(store, tar(*((f"f{number}", b"1") for number in range(100)), mode=0o600))
    assert len(found) == 21
    assert found[-1] == "there are more of these"


def test_a_folder_in_the_place_of_a_file(store: Counting) -> None:
    Bench(store).image("v1", [tar(("model", b"file")), tar(("model/config.json", b"{}"))])
    found = predict(store, "v1", "containerd")
    assert (found.verdict, found.conflicts) == ("wrong", ["model"])
    assert [each.path for each in found.files] == ["model/config.json"]


def test_a_file_in_the_place_of_a_folder(store: Counting) -> None:
    Bench(store).image("v1", [tar(("model/a", b"1"), ("model/b", b"2")), tar(("model", b"file"))])
    found = predict(store, "v1", "containerd")
    assert (found.verdict, found.conflicts) == ("wrong", ["model"])
    assert [each.path for each in found.files] == ["model"]


def test_an_opaque_folder_hides_what_is_below_it_only() -> None:
    overlay = Overlay()
    overlay.add(1, "one", [entries.LayerEntry("sub/old"), entries.LayerEntry("subway")])
    overlay.add(2, "two", [entries.LayerEntry("sub/new"), entries.LayerEntry("sub/.wh..wh..opq")])
    assert sorted(overlay.nodes) == ["sub/new", "subway"]


def test_large_tar_layers_are_not_fetched(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "SMALL", 1024)
    size = 20 * 1024 * 1024
    archive = tar(("big.bin", bytes(size)), ("config.json", b"{}"), ("big2.bin", bytes(size)))
    Bench(store).image("v1", [archive])
    store.read = 0
    found = predict(store, "v1", "containerd")
    assert {each.path: each.size for each in found.files} == {"big.bin": size, "config.json": 2, "big2.bin": size}
    assert (found.unread, found.verdict) == ([], "mounts")
    assert store.read < size / 4


def test_large_compressed_layers_are_read_on_request_only(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "SMALL", 1024)
    noise = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(200))
    Bench(store).image("v1", [tar(("config.json", noise))], suffix="+gzip")
    found = predict(store, "v1", "containerd")
    assert (found.verdict, found.files, found.complete) == ("mounts", [], None)
    assert [each.reason for each in found.unread] == ["it is compressed, so that it had to be read whole"]
    found = predict(store, "v1", "containerd", read=True)
    assert [each.path for each in found.files] == ["config.json"]
    assert found.unread == []


def test_a_bomb_is_not_unpacked(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_MOST_UNPACKED", 100_000)
    Bench(store).image("v1", [tar(("zeros", bytes(1_000_000)))], suffix="+zstd")
    found = predict(store, "v1", "containerd")
    assert len(found.unread) == 1
    assert "more than 100000 bytes when it is unpacked" in found.unread[0].reason


def test_an_archive_of_very_many_large_files_is_given_up(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "SMALL", 1024)
    monkeypatch.setattr(entries, "_NEAR", 1024)
    monkeypatch.setattr(entries, "_MOST_JUMPS", 3)
    Bench(store).image("v1", [tar(*((f"f{number}", bytes(4096)) for number in range(9)))])
    found = predict(store, "v1", "containerd")
    assert "more than 3 large files" in found.unread[0].reason


@pytest.mark.parametrize("suffix", PACKERS)
def test_what_is_read_whole_has_its_diff_id(suffix: str, store: Counting) -> None:
    archive = tar(("a", b"1"), ("b", b"2"))
    data = PACKERS[suffix](archive)
    Bench(store).blob(data, LAYER + suffix)
    found = contents(store, Descriptor.of(data, LAYER + suffix), whole=True)
    assert found.diff_id == digest(archive)
    assert [each.path for each in found.entries or ()] == ["a", "b"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:512] + b"x" * 512 + data[1024:],  # the second header
        lambda data: b"no archive" * 200,
        lambda data: data[:700],
        lambda data: b"\x1f\x8b" + data,
        lambda data: PACKERS["+gzip"](data)[:-20],
    ],
)
def test_what_is_no_archive_is_refused(damage, store: Counting) -> None:  # type: ignore[no-untyped-def]
    bench = Bench(store)
    data = damage(tar(("empty", b""), ("b", b"2")))
    layer = bench.blob(data, LAYER)
    bench.manifest("v1", bench.config([digest(data)]), [layer])
    found = predict(store, "v1", "containerd")
    assert (found.verdict, "is no tar archive" in found.reason) == ("refused", True)


def test_a_layer_that_is_not_there(store: Counting) -> None:
    bench = Bench(store)
    gone = Descriptor.of(tar(("a", b"1")), LAYER)
    bench.manifest("v1", bench.config([gone.digest]), [gone.model_dump(by_alias=True, exclude_none=True)])
    found = predict(store, "v1", "cri-o")
    assert (found.verdict, "is not there" in found.reason) == ("refused", True)


def test_a_damaged_store_is_an_error(store: Counting) -> None:
    archive = tar(("a", b"1"))
    Bench(store).image("v1", [archive])
    blob = store.path / "blobs" / "sha256" / digest(archive)[7:]
    blob.write_bytes(archive[:-1] + b"x")
    with pytest.raises(IntegrityError):
        predict(store, "v1", "containerd")


def test_names_that_are_no_unicode_are_shown(store: Counting) -> None:
    archive = bytearray(tar(("a?b", b"1")))
    archive[1] = 0xFF
    archive[148:156] = b" " * 8
    archive[148:156] = b"%06o\0 " % sum(archive[:512])
    assert hazards(store, bytes(archive)) == []
    assert [each.path for each in predict(store, "v1", "containerd").files] == ["a\N{REPLACEMENT CHARACTER}b"]
