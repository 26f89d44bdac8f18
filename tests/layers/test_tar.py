# SPDX-License-Identifier: Apache-2.0
"""Reproducible tar, and reading what others write."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ocibridge.errors import FormatError, IntegrityError, LimitError, OcibridgeError
from ocibridge.io.content import BytesContent, Concatenation, Content, read_all
from ocibridge.io.readers import Reader
from ocibridge.layers.tar import DIRECTORY, REGULAR, SYMLINK, _ustar, read_tar, tar_header, tar_parts
from ocibridge.settings import Limits

GOLDEN = "66c64348090f696a583f473d565ca9b3346fc84f60a5073e6cba681956f13ac7"
FILES = {
    "model/b.txt": b"second",
    "model/a.bin": b"\0" * 513,
    "model/empty": b"",
    "d" * 90 + "/" + "e" * 90: b"prefix and name",
    "n" * 101: b"pax: no place to split",
    "ä/ö": b"pax: not ASCII",
}


def pack(files: dict[str, bytes]) -> bytes:
    contents: list[tuple[str, Content]] = [(path, BytesContent(data)) for path, data in files.items()]
    return read_all(Concatenation(tar_parts(contents)))


def names(data: bytes) -> list[tuple[str, bytes]]:
    reader = BytesContent(data).open()
    return [(entry.path, entry.reader.read()) for entry in read_tar(reader, "it") if entry.kind == REGULAR]


def test_golden_bytes() -> None:
    assert hashlib.sha256(pack(FILES)).hexdigest() == GOLDEN


def test_the_order_of_the_input_does_not_count() -> None:
    assert pack(dict(reversed(FILES.items()))) == pack(FILES)


def test_the_standard_library_reads_it_and_sees_constant_attributes() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(FILES))) as archive:
        members = archive.getmembers()
        assert [member.name for member in members] == sorted(FILES, key=str.encode)
        for member in members:
            file = archive.extractfile(member)
            assert file is not None
            assert file.read() == FILES[member.name]
            attributes = (member.mtime, member.uid, member.gid, member.mode, member.uname, member.gname)
            assert attributes == (0, 0, 0, 0o644, "", "")


def test_pax_only_where_ustar_cannot() -> None:
    assert len(tar_header("p" * 150 + "/" + "n" * 100, 1)) == 512
    assert len(tar_header("n" * 100, 8**11 - 1)) == 512
    assert len(tar_header("n" * 101, 1)) == 1536
    assert len(tar_header("ä", 1)) == 1536


def test_files_of_8_gib_and_more_have_their_size_in_pax() -> None:
    size = 8**11
    header = tar_header("big", size)
    assert len(header) == 1536
    info = tarfile.TarInfo.frombuf(header[1024:], "utf-8", "strict")
    assert (info.name, info.size) == ("big", 0)
    assert b" size=%d\n" % size in header


names_strategy = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1).filter(
    lambda text: text not in (".", "..")
)
paths_strategy = st.lists(names_strategy, min_size=1, max_size=4).map("/".join)


@settings(max_examples=60)
@given(st.dictionaries(paths_strategy, st.binary(max_size=600), max_size=5))
@example({"x" * 300: b""})
def test_round_trip(files: dict[str, bytes]) -> None:
    assert names(pack(files)) == sorted(files.items(), key=lambda item: item[0].encode())


@pytest.mark.parametrize("style", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_other_writers_make_is_read(style: int) -> None:
    buffer = io.BytesIO()
    long = "l" * 90 + "/" + "m" * 90
    with tarfile.open(fileobj=buffer, mode="w", format=style) as archive:
        folder = tarfile.TarInfo("./dir/")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        link = tarfile.TarInfo("dir/link")
        link.type, link.linkname = tarfile.SYMTYPE, "../x"
        archive.addfile(link)
        for name in ("./dir/file", long, *([] if style == tarfile.USTAR_FORMAT else ["x" * 200])):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.uname = 3, 12345.5 if style == tarfile.PAX_FORMAT else 12345, "me"
            archive.addfile(info, io.BytesIO(b"abc"))
    found = [(entry.path, entry.kind, entry.link) for entry in read_tar(BytesContent(buffer.getvalue()).open(), "it")]
    assert found[:2] == [("dir", DIRECTORY, ""), ("dir/link", SYMLINK, "../x")]
    assert ("dir/file", REGULAR, "") in found
    assert (long, REGULAR, "") in found


def test_a_gnu_size_of_more_than_8_gib_is_read() -> None:
    info = tarfile.TarInfo("big")
    info.size = 9 << 30
    header = info.tobuf(tarfile.GNU_FORMAT)
    with pytest.raises(IntegrityError):
        for entry in read_tar(BytesContent(header).open(), "it"):
            assert entry.size == 9 << 30


def _member(name: str = "x", kind: bytes = b"0", size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(
    ("data", "error", "word"),
    [
        (b"", IntegrityError, "ends in the middle"),
        (b"x" * 512, FormatError, "wrong checksum"),
        (_member(), IntegrityError, "ends in the middle"),
        (_member(size=1000) + b"y" * 512, IntegrityError, "after the end"),
        (_member(kind=b"3") + bytes(1024), FormatError, "neither a file"),
        (_member(kind=b"6") + bytes(1024), FormatError, "neither a file"),
        (_member(kind=b"S") + bytes(1024), FormatError, "neither a file"),
        (_ustar(("", "x"), -1, b"0") + bytes(1024), FormatError, "no number"),
        (_member(kind=b"x", size=1 << 30), LimitError, "extension header"),
        (_member(kind=b"x", size=10) + b"99 a=b\n" + bytes(505), FormatError, "pax"),
        (bytes(512) + b"hidden" + bytes(506), FormatError, "behind the end"),
        (bytes(512) + bytes(2 << 20), FormatError, "behind the end"),
    ],
)
def test_refusals(data: bytes, error: type[OcibridgeError], word: str) -> None:
    with pytest.raises(error, match=word) as caught:
        list(read_tar(BytesContent(data).open(), "the layer"))
    assert "the layer" in str(caught.value)


def test_too_many_entries() -> None:
    data = pack({str(number): b"" for number in range(5)})
    with pytest.raises(LimitError):
        list(read_tar(BytesContent(data).open(), "it", Limits(entries=4)))


@settings(max_examples=150)
@given(
    st.binary(max_size=2048) | st.builds(lambda at, byte: _mutated(at, byte), st.integers(0, 4000), st.integers(0, 255))
)
def test_any_bytes_end_in_entries_or_an_error(data: bytes) -> None:
    reader: Reader = BytesContent(data).open()
    try:
        for entry in read_tar(reader, "it"):
            entry.reader.read()
    except OcibridgeError:
        pass


def _mutated(at: int, byte: int) -> bytes:
    data = bytearray(pack(FILES))
    data[at % len(data)] = byte
    return bytes(data)


def test_gnu_tar_reads_it(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "x.tar").write_bytes(pack(FILES))
    subprocess.run(["tar", "-xf", "x.tar"], cwd=tmp_path, check=True)
    for path, data in FILES.items():
        assert (tmp_path / path).read_bytes() == data
