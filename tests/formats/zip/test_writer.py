# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import DestinationError, IntegrityError
from ocibridge.formats.zip import METHODS, MemberContent, ZipWriter, read_directory, records
from ocibridge.io.content import read_all

FILES = {"a.txt": b"some text " * 1000, "empty": b"", "sub/ä.bin": bytes(range(256)) * 64}
GOLDEN = {
    "stored": "928ee746d66fc543c24cf359503ec1a8828247c7245710c6a3e831cd909b5c7d",
    "deflate": "b5d485c87aa745728add3066ec5f7e702c514522aa427d727121e0f06f8f250d",
    "zstd": "0ad091476eb1597dbcf1bd6ca98d8af9f0d633bf86c9a231eb884c13ede84a66",
}
STOCK_ZLIB = "ng" not in zlib.ZLIB_RUNTIME_VERSION


def write(path: Path, method: str) -> None:
    with ZipWriter(path) as archive:
        for name, data in FILES.items():
            archive.append(name, len(data), [data], method)
        archive.fill(archive.place("link", 5, symlink=True), [b"a.txt"])
        archive.finish()


@pytest.mark.parametrize("method", METHODS)
def test_golden_bytes(tmp_path: Path, method: str) -> None:
    write(tmp_path / "a.zip", method)
    digest = hashlib.sha256((tmp_path / "a.zip").read_bytes()).hexdigest()
    if method != "deflate" or STOCK_ZLIB:
        assert digest == GOLDEN[method]
    found = read_directory(tmp_path / "a.zip")
    assert {m.name: read_all(MemberContent(tmp_path / "a.zip", m)) for m in found} == {**FILES, "link": b"a.txt"}
    assert [m.is_symlink for m in found] == [False, False, False, True]
    assert [m.flags for m in found] == [0, 0, 0x800, 0]


def test_standard_library_reads_it(tmp_path: Path) -> None:
    for method in ("stored", "deflate"):
        write(tmp_path / method, method)
        with zipfile.ZipFile(tmp_path / method) as archive:
            assert archive.testzip() is None
            assert archive.read("a.txt") == FILES["a.txt"]
            assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
            assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644, 0o120777}


@pytest.mark.parametrize("positioned", [True, False])
def test_any_order_and_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, positioned: bool) -> None:
    if not positioned:
        monkeypatch.delattr(os, "pwrite")
    files = {f"f{number}": bytes([number]) * (number * 1000) for number in range(40)}
    with ZipWriter(tmp_path / "a.zip") as archive:
        slots = {name: archive.place(name, len(data)) for name, data in files.items()}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: archive.fill(slots[name], [files[name]]), reversed(files)))
        archive.finish()
    with ZipWriter(tmp_path / "b.zip") as archive:
        for name, data in files.items():
            archive.append(name, len(data), [data])
        archive.finish()
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"four", b"sixsix"])
def test_wrong_size(tmp_path: Path, method: str, data: bytes) -> None:
    with ZipWriter(tmp_path / "a.zip") as archive:
        with pytest.raises(IntegrityError, match="has not the 5 bytes"):
            archive.append("a", 5, [data], method)


def test_given_up_member_leaves_nothing(tmp_path: Path) -> None:
    with ZipWriter(tmp_path / "a.zip") as archive:
        with pytest.raises(IntegrityError):
            archive.append("a", 99999, [os.urandom(99998)], "zstd")
        archive.append("b", 1, [b"1"], "zstd")
        archive.finish()
    assert [m.name for m in read_directory(tmp_path / "a.zip")] == ["b"]
    assert (tmp_path / "a.zip").stat().st_size < 300


def test_unfinished_members_are_no_archive(tmp_path: Path) -> None:
    with ZipWriter(tmp_path / "a.zip") as archive:
        archive.place("a", 5)
        with pytest.raises(ValueError, match="not written"):
            archive.finish()


def test_existing_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"mine")
    with pytest.raises(DestinationError, match="cannot write target"):
        ZipWriter(tmp_path / "a.zip", label="target")
    assert (tmp_path / "a.zip").read_bytes() == b"mine"


def test_zip64_sizes_and_offsets(tmp_path: Path) -> None:
    """A sparse archive: a member of more than 4 GiB whose bytes are never written, and one behind it."""
    big = (1 << 32) + 5
    path = tmp_path / "a.zip"
    with ZipWriter(path) as archive:
        first = archive.place("big", big)
        edge = archive.place("edge", 0xFFFFFFFE)
        after = archive.place("after", 3)
        archive.fill(after, [b"abc"])
        for entry in (first, edge):
            archive._write(entry.header_offset, entry.local())
            entry.done = True
        archive.finish()
    members = {member.name: member for member in read_directory(path)}
    assert {name: member.size for name, member in members.items()} == {"big": big, "edge": 0xFFFFFFFE, "after": 3}
    assert [bool(members[name].local_extra) for name in ("big", "edge", "after")] == [True, False, False]
    assert [len(members[name].extra) for name in ("big", "edge", "after")] == [20, 12, 12]
    assert read_all(MemberContent(path, members["after"])) == b"abc"
    with MemberContent(path, members["big"]).open(big - 2) as reader:
        assert reader.read() == b"\0\0"
    with zipfile.ZipFile(path) as other:
        assert {info.filename: info.file_size for info in other.infolist()} == {n: m.size for n, m in members.items()}
        assert other.read("after") == b"abc"


def test_zip64_number_of_members(tmp_path: Path) -> None:
    for count, wide in ((65534, False), (65535, True)):
        path = tmp_path / f"{count}.zip"
        with ZipWriter(path) as archive:
            for number in range(count):
                # One write for all headers keeps this quick.
                entry = archive.place(f"{number:05}", 0)
                entry.done = True
            archive._write(0, b"".join(entry.local() for entry in archive._entries))
            archive.finish()
        assert (b"PK\x06\x07" in path.read_bytes()[-42:]) is wide
        assert len(read_directory(path)) == count


@pytest.mark.parametrize("method", ["deflate", "zstd"])
def test_zip64_while_compressing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(records, "MAX32", 100_000)
    data = os.urandom(100_000)
    with ZipWriter(tmp_path / "a.zip") as archive:
        entry = archive.append("a", len(data), [data], method)
        archive.finish()
    assert entry.wide
    assert entry.compressed_size > len(data)
    member = read_directory(tmp_path / "a.zip")[0]
    assert read_all(MemberContent(tmp_path / "a.zip", member)) == data


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(names, st.binary(max_size=2000), max_size=8), method=st.sampled_from(list(METHODS)))
def test_round_trip(tmp_path: Path, files: dict[str, bytes], method: str) -> None:
    path = tmp_path / "a.zip"
    path.unlink(missing_ok=True)
    with ZipWriter(path) as archive:
        for name, data in files.items():
            archive.append(name, len(data), [data], method)
        archive.finish()
    assert {m.name: read_all(MemberContent(path, m)) for m in read_directory(path)} == files
