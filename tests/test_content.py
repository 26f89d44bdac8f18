# SPDX-License-Identifier: Apache-2.0
"""Contents: bytes that can be opened again, from any offset."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.content import BytesContent, Concatenation, Content, FileContent, chunks, read_all
from ocibridge.errors import SourceError


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
