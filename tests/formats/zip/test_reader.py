# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import FormatError, IntegrityError, LimitError, OcibridgeError, SourceError
from ocibridge.formats.zip import MemberContent, check_names, read_directory
from ocibridge.io.content import read_all
from ocibridge.io.readers import chunks
from ocibridge.settings import Limits

from ..build import SYMLINK, Raw, raw_zip

FIXTURES = Path(__file__).parents[2] / "fixtures"
TEXT = b"some text that repeats, some text that repeats\n" * 40


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "a.zip"


def test_all_methods_and_offsets(archive: Path) -> None:
    archive.write_bytes(raw_zip([Raw(b"s", TEXT), Raw(b"d", TEXT, 8), Raw(b"z", TEXT, 93), Raw(b"e")]))
    members = read_directory(archive)
    assert [member.name for member in members] == ["s", "d", "z", "e"]
    for member in members[:3]:
        content = MemberContent(archive, member)
        assert read_all(content) == TEXT
        for offset in (1, 50, len(TEXT) - 1, len(TEXT)):
            with content.open(offset) as reader:
                assert reader.read() == TEXT[offset:]
    assert read_all(MemberContent(archive, members[3])) == b""


def test_small_reads_see_the_verdict(archive: Path) -> None:
    archive.write_bytes(raw_zip([Raw(b"s", b"abcdef", crc=1)]))
    with MemberContent(archive, read_directory(archive)[0]).open() as reader:
        assert reader.read(5) == b"abcde"
        with pytest.raises(IntegrityError, match="wrong CRC-32"):
            reader.read(1)


@pytest.mark.parametrize("method", [0, 8, 93])
def test_data_descriptors(archive: Path, method: int) -> None:
    archive.write_bytes(raw_zip([Raw(b"a", TEXT, method, descriptor=True), Raw(b"b", b"x", method, descriptor=True)]))
    assert [read_all(MemberContent(archive, member)) for member in read_directory(archive)] == [TEXT, b"x"]


def test_several_zstd_frames(archive: Path) -> None:
    packed = zstandard.ZstdCompressor().compress(b"one") + zstandard.ZstdCompressor().compress(b"two")
    archive.write_bytes(raw_zip([Raw(b"a", b"onetwo", 93, packed=packed)]))
    assert read_all(MemberContent(archive, read_directory(archive)[0])) == b"onetwo"


@pytest.mark.parametrize("comment", [b"hello", b"PK\5\6" * 30, b"x" * 65535])
def test_comments_and_trailing_bytes(archive: Path, comment: bytes) -> None:
    archive.write_bytes(raw_zip([Raw(b"a", b"1")], comment=comment))
    assert len(read_directory(archive)) == 1
    archive.write_bytes(raw_zip([Raw(b"a", b"1")]) + b"trailing")
    assert len(read_directory(archive)) == 1


def test_empty_archive(archive: Path) -> None:
    archive.write_bytes(raw_zip([]))
    assert read_directory(archive) == ()


def test_archives_of_the_standard_library(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("ä/ö.txt", TEXT, zipfile.ZIP_DEFLATED)
        with written.open("big", "w", force_zip64=True) as member:
            member.write(TEXT)
    with open(archive, "rb") as data:
        stream = io.BytesIO(data.read())
    assert [m.name for m in read_directory(archive)] == ["ä/ö.txt", "big"]
    assert [read_all(MemberContent(archive, m)) for m in read_directory(archive)] == [TEXT, TEXT]
    assert zipfile.ZipFile(stream).testzip() is None


@pytest.mark.parametrize(
    ("raw", "flags", "name"),
    [
        ("ä.txt".encode(), 0, "ä.txt"),
        ("ä.txt".encode(), 0x800, "ä.txt"),
        (b"\x84.txt", 0, "ä.txt"),
    ],
)
def test_names(archive: Path, raw: bytes, flags: int, name: str) -> None:
    archive.write_bytes(raw_zip([Raw(raw, flags=flags)]))
    member = read_directory(archive)[0]
    assert (member.name, member.raw_name, member.flags) == (name, raw, flags)


def test_unicode_path_field(archive: Path) -> None:
    def field(raw: bytes, name: bytes) -> bytes:
        return struct.pack("<2HBL", 0x7075, 5 + len(name), 1, zlib.crc32(raw)) + name

    archive.write_bytes(raw_zip([Raw(b"\x84", extra=field(b"\x84", "ü".encode()))]))
    assert read_directory(archive)[0].name == "ü"
    archive.write_bytes(raw_zip([Raw(b"a", extra=field(b"a", b"b"))]))
    with pytest.raises(FormatError, match="has two names"):
        read_directory(archive)


def test_kinds(archive: Path) -> None:
    archive.write_bytes(
        raw_zip([Raw(b"l", b"t", attr=SYMLINK), Raw(b"n", b"t", attr=SYMLINK, system=0), Raw(b"d/"), Raw(b"x/", b"1")])
    )
    members = read_directory(archive)
    assert [(m.is_symlink, m.is_dir) for m in members] == [(True, False), (False, False), (False, True), (False, False)]
    with pytest.raises(FormatError, match="named like a folder but contains 1 bytes"):
        check_names(members, "a.zip")


MANGLED = {
    "encrypted": ([Raw(b"a", b"1", flags=1)], "is encrypted"),
    "strongly encrypted": ([Raw(b"a", b"1", flags=0x41)], "is encrypted"),
    "aes": ([Raw(b"a", b"1", method=99)], "is encrypted"),
    "bzip2": ([Raw(b"a", b"1", method=12)], r"method 12 \(bzip2\)"),
    "lzma": ([Raw(b"a", b"1", method=14)], r"method 14 \(lzma\)"),
    "unknown method": ([Raw(b"a", b"1", method=77)], r"method 77 \(unknown\)"),
    "patch": ([Raw(b"a", b"1", flags=0x20)], "compressed by method 0"),
    "other name": ([Raw(b"a", b"1", local_name=b"b")], "disagree"),
    "other method": ([Raw(b"a", b"1", local_method=8)], "disagree"),
    "other crc": ([Raw(b"a", b"1", local_crc=1)], "disagree"),
    "stored sizes": ([Raw(b"a", b"1", size=2)], "two different sizes"),
    "overlap": ([Raw(b"a", b"1"), Raw(b"a", b"1", offset=0)], "overlaps"),
    "prefix": ([Raw(b"a", b"1", offset=5)], "data before"),
    "outside": ([Raw(b"a", b"1"), Raw(b"b", b"1", offset=10**6)], "lies outside"),
    "no header": ([Raw(b"a", b"1"), Raw(b"b", b"1", offset=33)], "there is no member"),
    "other disk": ([Raw(b"a", b"1", disk=3)], "another disk"),
    "no utf-8": ([Raw(b"\xff", b"1", flags=0x800)], "not the UTF-8"),
    "zip64 missing": ([Raw(b"a", b"1", size=0xFFFFFFFF)], "zip64 field"),
    "extra cut": ([Raw(b"a", b"1", extra=b"\1\0\x08\0")], "extra field"),
}


@pytest.mark.parametrize("case", MANGLED)
def test_refused_members(archive: Path, case: str) -> None:
    members, sentence = MANGLED[case]
    archive.write_bytes(raw_zip(members))
    with pytest.raises(FormatError, match=sentence) as caught:
        read_directory(archive)
    assert "\n" not in str(caught.value)


def test_refused_archives(archive: Path) -> None:
    good = raw_zip([Raw(b"a", TEXT), Raw(b"b", TEXT)])
    cases = [
        (b"", "no complete zip"),
        (b"not a zip at all", "no complete zip"),
        (good[:-1], "cut short"),
        (good[:-30], "no complete zip"),
        (good[: len(good) // 2], "no complete zip"),
        (b"#!/bin/sh\n" + good, "data before"),
        (b"x" + raw_zip([]), "data before"),
        (good[100:], "not where its end record says"),
        (raw_zip([Raw(b"a")], disk=1), "split zip"),
        (raw_zip([Raw(b"a")], count=2), "not where|damaged|cut short"),
        (raw_zip([Raw(b"a"), Raw(b"b")], count=1), "more in it than its members"),
        (good.replace(b"PK\1\2", b"PK\1\3", 1), "directory is damaged"),
        (raw_zip([Raw(b"a")], comment=b"") + raw_zip([], offset=len(raw_zip([Raw(b"a")]))), "two directories"),
    ]
    for data, sentence in cases:
        archive.write_bytes(data)
        with pytest.raises(FormatError, match=sentence):
            read_directory(archive)
    with pytest.raises(SourceError, match="no such file"):
        read_directory(archive.with_name("missing"))


def test_limits(archive: Path) -> None:
    archive.write_bytes(raw_zip([Raw(b"a"), Raw(b"b")]))
    with pytest.raises(LimitError, match="has 2 members, more than the 1"):
        read_directory(archive, Limits(entries=1))
    with pytest.raises(LimitError, match=r"directory of .* has 94 bytes"):
        read_directory(archive, Limits(directory=93))
    big = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=22))
    stream = big.compressobj()
    packed = stream.compress(os.urandom(1000)) + stream.flush()
    archive.write_bytes(raw_zip([Raw(b"a", b"1" * 1000, 93, packed=packed)]))
    with pytest.raises(LimitError, match="window of more than the 1024 bytes"):
        read_all(MemberContent(archive, read_directory(archive)[0], Limits(zstd_window=1024)))


@pytest.mark.parametrize("method", [8, 93])
def test_damaged_data(archive: Path, method: int) -> None:
    packed = Raw(b"a", TEXT, method).body()
    cases = [
        (Raw(b"a", TEXT, method, packed=packed[:-4]), "cut short|damaged"),
        (Raw(b"a", TEXT, method, packed=b""), "cut short"),
        (Raw(b"a", TEXT, method, packed=b"\xff" * 50), "damaged"),
        (Raw(b"a", TEXT, method, size=len(TEXT) - 1), "expands past its declared size"),
        (Raw(b"a", TEXT, method, size=0), "expands past its declared size"),
        (Raw(b"a", TEXT, method, size=len(TEXT) + 1), "cut short"),
        (Raw(b"a", TEXT, method, crc=7), "wrong CRC-32"),
    ]
    for member, sentence in cases:
        archive.write_bytes(raw_zip([member]))
        with pytest.raises(IntegrityError, match=sentence):
            read_all(MemberContent(archive, read_directory(archive)[0]))


@pytest.mark.parametrize("method", [8, 93])
def test_bombs_are_not_decoded(archive: Path, method: int) -> None:
    bomb = Raw(b"a", bytes(64 << 20), method).body()
    archive.write_bytes(raw_zip([Raw(b"a", b"", method, packed=bomb, size=10)]))
    with (
        pytest.raises(IntegrityError, match="expands past"),
        MemberContent(archive, read_directory(archive)[0]).open() as f,
    ):
        f.read()


def walk(path: Path) -> None:
    """Read everything; only our own errors are allowed out."""
    limits = Limits(zstd_window=1 << 20)
    members = read_directory(path, limits)
    check_names(members, "it")
    for member in members:
        with MemberContent(path, member, limits).open() as reader:
            for _ in zip(range(20), chunks(reader, 4096), strict=False):
                pass


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_bytes(archive: Path, data: bytes) -> None:
    for prefix in (b"", b"PK\3\4", raw_zip([Raw(b"a", b"1")])):
        archive.write_bytes(prefix + data)
        try:
            walk(archive)
        except OcibridgeError as exc:
            assert exc.message


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_to_real_archives(archive: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["digits.carton", "digits-stored.carton", "digits-links.carton"]))
    raw = bytearray((FIXTURES / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        # Headers are where damage is interesting, and most of them are at the end.
        at = data.draw(st.one_of(st.integers(0, len(raw) - 1), st.integers(len(raw) - 1200, len(raw) - 1)))
        raw[at] = data.draw(st.integers(0, 255))
    archive.write_bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw), at]))])
    try:
        walk(archive)
    except OcibridgeError as exc:
        assert exc.message
