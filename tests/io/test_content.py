# SPDX-License-Identifier: Apache-2.0
"""Contents: bytes that can be opened again, from any offset."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import SourceError
from ocibridge.io.content import BytesContent, Concatenation, Content, FileContent, read_all
from ocibridge.io.readers import chunks


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_a_concatenation_is_its_parts_from_any_offset(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    content = Concatenation([BytesContent(part) for part in parts])
    assert content.size == len(whole)
    assert read_all(content) == whole
    offset = data.draw(st.integers(0, len(whole)))
    with content.open(offset) as reader:
        assert reader.read() == whole[offset:]


def test_a_file_range(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(range(100)))
    content = FileContent(file, 10, 50)
    with content.open(5) as reader:
        assert reader.read() == bytes(range(15, 60))
    assert FileContent(file, 90).size == 10


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 100)
    content: Content = FileContent(file)
    file.write_bytes(b"x" * 40)
    with pytest.raises(SourceError, match="became shorter"):
        read_all(content)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file") as caught:
        FileContent(tmp_path / "missing")
    assert caught.value.hint == "check the path"


def test_chunks_are_full_however_the_parts_are_cut() -> None:
    content = Concatenation([BytesContent(b"ab"), BytesContent(b"c"), BytesContent(b""), BytesContent(b"defg")])
    with content.open() as reader:
        assert [bytes(chunk) for chunk in chunks(reader, 3)] == [b"abc", b"def", b"g"]


@pytest.mark.parametrize("change", ["longer", "shorter", "missing"])
@pytest.mark.parametrize("size", [50, 3 << 20], ids=["small", "large"])
def test_a_part_that_changed_is_found_out(tmp_path: Path, change: str, size: int) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * size)
    content = Concatenation([BytesContent(b"head"), FileContent(file, whole=True), BytesContent(b"tail")])
    assert read_all(content) == b"head" + b"x" * size + b"tail"
    file.unlink()
    if change != "missing":
        file.write_bytes(b"x" * (size + (1 if change == "longer" else -1)))
    with pytest.raises(SourceError, match="no such file" if change == "missing" else f"became {change}"):
        read_all(content)


def test_parts_are_ranges(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(range(100)))
    content = Concatenation([FileContent(file, 10, 20), FileContent(file, 50, 0), FileContent(file, 90)])
    assert read_all(content) == bytes([*range(10, 30), *range(90, 100)])


def test_parts_without_preadv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.preadv", raising=False)
    test_parts_are_ranges(tmp_path)
