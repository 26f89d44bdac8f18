# SPDX-License-Identifier: Apache-2.0
"""The reader against the `safetensors` package, against arbitrary bytes, and against headers made to hurt it."""

import json
import struct
import tarfile
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from ocibridge.errors import FormatError, OcibridgeError
from ocibridge.formats import safetensors as module
from ocibridge.formats.safetensors import BITS, SafetensorsHeader, read_safetensors
from ocibridge.io.content import BytesContent
from ocibridge.io.readers import Reader

FIXTURES = Path(__file__).parents[1] / "fixtures"


def container(header: bytes | dict[str, Any], data: int = 0, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


def one(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}}


def read(data: bytes) -> SafetensorsHeader:
    return read_safetensors(BytesContent(data), "model.safetensors")


def elements(data: bytes) -> dict[str, int]:
    """Elements by dtype, as the reference package reads them."""
    found: dict[str, int] = {}
    for _, info in safetensors.deserialize(data):  # type: ignore[no-untyped-call]
        found[info["dtype"]] = found.get(info["dtype"], 0) + int(np.prod(info["shape"], dtype=object))
    return found


def members(archive: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(FIXTURES / archive) as tar:
        for entry in tar:
            member = tar.extractfile(entry)
            if member is not None:
                yield entry.name, member.read()


def test_the_shards_of_the_hugging_face_folder() -> None:
    shards = {name: data for name, data in members("hf-digits.tar") if name.endswith(".safetensors")}
    assert len(shards) == 2
    found = [read(data) for data in shards.values()]
    assert [each.elements for each in found] == [elements(data) for data in shards.values()]
    assert [each.metadata for each in found] == [{"format": "pt"}] * 2
    assert [each.dtype for each in found] == ["F32"] * 2
    assert sum(each.parameters or 0 for each in found) == 9_258


def test_the_tensor_blobs_of_the_ollama_store() -> None:
    blobs = [data for name, data in members("ollama-store.tar") if "blobs/" in name and data[8:10] == b'{"']
    assert len(blobs) == 13
    for data in blobs:
        assert read(data).elements == elements(data)
        assert read(data).dtype == "BF16"


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
arrays = st.builds(
    np.zeros,
    st.lists(st.integers(0, 4), max_size=4),
    st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8"]),
)


@given(
    st.dictionaries(names.filter("__metadata__".__ne__), arrays, max_size=8),
    st.none() | st.dictionaries(names, names, min_size=1, max_size=4),  # of {} and {}, 0.8.0 makes what it cannot read
)
@settings(deadline=None)
def test_files_of_the_reference_writer(tensors: dict[str, Any], metadata: dict[str, str] | None) -> None:
    data = save(tensors, metadata)
    found = read(data)
    assert found.elements == elements(data)
    assert found.tensors == len(tensors)
    assert found.metadata == (metadata or {})
    assert found.parameters == (sum(each.size for each in tensors.values()) or None)


@pytest.mark.parametrize("dtype", BITS)
def test_the_reference_package_knows_every_dtype_by_the_same_size(dtype: str) -> None:
    data = container(one(dtype, [8, 3], [0, 3 * BITS[dtype]]), 3 * BITS[dtype])
    assert read(data).elements == elements(data) == {dtype: 24}


numbers = st.integers(0, 4) | st.sampled_from([8, 12, 16, 2**63, 2**64, -1, 1.0, True, None, "1"])
infos: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "U8", "F4", "F6_E2M3", "BOOL", "F99", "f32", None, 1]),
        "shape": st.lists(numbers, max_size=3) | st.sampled_from([None, {}, 4, "4"]),
        "data_offsets": st.lists(numbers, min_size=1, max_size=3) | st.sampled_from([None, {}, 4]),
    },
    optional={"more": st.none() | numbers},
)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "__metadata__"]), infos | st.sampled_from([None, {}, [], {"k": "v"}, {"k": 1}])
    ),
    st.integers(0, 16),
)
@settings(max_examples=300, deadline=None)
def test_what_is_accepted_here_is_accepted_there(header: dict[str, Any], data: int) -> None:
    made = container(header, data)
    with suppress(OcibridgeError):
        found = read(made)
        assert found.elements == elements(made)


@given(st.integers(0, 12), st.lists(st.integers(0, 12), min_size=1, max_size=4), st.randoms())
@settings(deadline=None)
def test_what_is_accepted_there_is_accepted_here(end: int, cuts: list[int], random: Any) -> None:
    """Tensors that mostly follow each other, in any order of the keys: gaps and overlaps are judged alike."""
    starts = sorted(min(cut, end) for cut in cuts)
    header = {
        f"t{index}": {"dtype": "U8", "shape": [stop - start], "data_offsets": [start, stop]}
        for index, (start, stop) in enumerate(zip(starts, [*starts[1:], end], strict=True))
    }
    keys = list(header)
    random.shuffle(keys)
    made = container({key: header[key] for key in keys}, end)
    try:
        expected: object = elements(made)
    except safetensors.SafetensorError:
        expected = None
    found: object = None
    with suppress(FormatError):
        found = read(made).elements
    assert found == expected


def test_what_may_surround_the_tensors() -> None:
    assert read(container({})) == SafetensorsHeader({}, 0, {})
    assert read(container(b'{"__metadata__":null}')).metadata == {}
    assert read(container(b"{}      ")).tensors == 0
    assert read(container(one(more=[1]), 8)).parameters == 2
    assert read(container(one("F32", [], [0, 4]), 4)).parameters == 1
    assert read(container(one("F32", [0, 2**62], [0, 0]))).parameters is None


TWICE = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
REFUSED = {
    "empty": (b"", "fewer than 8 bytes"),
    "length only": (bytes(8), "not a JSON object"),
    "length of a machine word": (container({}, length=2**64 - 1), "header of 18446744073709551615 bytes"),
    "length above the limit": (container({}, length=module.MAX_HEADER + 1), "header of 100000001 bytes"),
    "length beyond the end": (container({}, length=3), "ends inside"),
    "array": (container(b"[]"), "not a JSON object"),
    "leading space": (container(b" {}"), "not a JSON object"),
    "byte order mark": (container(b"\xef\xbb\xbf{}"), "not a JSON object"),
    "UTF-16": (container("{}".encode("utf-16-le")), "not a JSON object"),
    "not UTF-8": (container(b'{"\xff":1}'), "not valid JSON"),
    "cut JSON": (container(b'{"a":'), "not valid JSON"),
    "more after the JSON": (container(b"{}{}"), "not valid JSON"),
    "not a number": (container(b'{"a":NaN}'), "not valid JSON"),
    "nesting": (container(b'{"a":' + b"[" * 500_000), "nested too deeply"),
    "values": (container(b'{"a":[' + b"[]," * module.MAX_VALUES), "more than 2097152 values"),
    "key twice": (container(TWICE, 2), "'a' appears twice"),
    "key twice inside": (container(b'{"a":{"dtype":"U8","dtype":"U8"}}'), "'dtype' appears twice"),
    "metadata list": (container({"__metadata__": []}), "__metadata__"),
    "metadata number": (container({"__metadata__": {"a": 1}}), "__metadata__"),
    "metadata NUL": (container({"__metadata__": {"a": "\0"}}), "__metadata__"),
    "metadata surrogate": (container({"__metadata__": {"a": "\ud800"}}), "__metadata__"),
    "name NUL": (container({"\0": one()["a"]}, 8), "no proper name"),
    "name surrogate": (container({"\ud800": one()["a"]}, 8), "no proper name"),
    "no description": (container({"a": None}), "no proper name or description"),
    "unknown dtype": (container(one("F99"), 8), "unknown dtype 'F99'"),
    "dtype no string": (container(one(["F32"]), 8), "unknown dtype"),
    "shape no list": (container(one(shape=None), 8), "no proper shape"),
    "shape negative": (container(one(shape=[-2]), 8), "no natural numbers"),
    "shape boolean": (container(one(shape=[True, 2]), 8), "no natural numbers"),
    "shape float": (container(one(shape=[2.0]), 8), "no natural numbers"),
    "shape overflow": (container(one(shape=[2**32, 2**32]), 8), "more elements than any file"),
    "shape overflow, then nothing": (container(one(shape=[2**32, 2**32, 0], offsets=[0, 0])), "more elements than any"),
    "shape word": (container(one(shape=[2**64]), 8), "no natural numbers"),
    "shape of a million": (container(one(shape=[2] * 1_000_000), 8), "more elements than any file"),
    "half bytes": (container(one("F4", [3], [0, 1]), 1), "do not match"),
    "three offsets": (container(one(offsets=[0, 4, 8]), 8), "no proper shape or data_offsets"),
    "offsets backwards": (container(one(shape=[0], offsets=[4, 0]), 4), "do not match"),
    "too small": (container(one(offsets=[0, 4]), 4), "do not match"),
    "gap": (container(one(offsets=[4, 12]), 12), "leave a gap at byte 0"),
    "overlap": (container({**one(), "b": one(shape=[1], offsets=[4, 8])["a"]}, 8), "overlap or leave a gap at byte 4"),
    "cut data": (container(one(), 7), "need 8 bytes, the file has 7"),
    "more data": (container(one(), 9), "need 8 bytes, the file has 9"),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(data: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        read(data)
    assert str(caught.value).startswith("model.safetensors")
    assert len(str(caught.value)) < 400
    str(caught.value).encode()


class Counted(BytesContent):
    """Pretends to have `more` bytes of tensors behind `data`; counts what is read."""

    def __init__(self, data: bytes, more: int) -> None:
        super().__init__(data)
        self.more = more
        self.opened = 0

    @property
    def size(self) -> int:
        return len(self.data) + self.more

    def open(self, offset: int = 0) -> Reader:
        self.opened += 1
        return super().open(offset)


def test_only_the_header_is_read() -> None:
    count, width = 20_000, 4096 * 4096
    header = {
        f"model.layers.{index}.weight": {
            "dtype": "BF16",
            "shape": [4096, 4096],
            "data_offsets": [2 * width * index, 2 * width * (index + 1)],
        }
        for index in range(count)
    }
    content = Counted(container(header), 2 * width * count)
    tracemalloc.start()
    try:
        found = read_safetensors(content, "model.safetensors")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.parameters, found.tensors, content.opened) == (width * count, count, 1)
    assert peak < 100 * 2**20


def test_a_file_that_became_shorter_is_refused() -> None:
    with pytest.raises(FormatError, match="ends inside"):
        read_safetensors(Counted(container(b"{", length=100), 1000), "model.safetensors")


@given(st.binary(max_size=200))
def test_arbitrary_bytes(data: bytes) -> None:
    for made in (data, container(data), container(b"{" + data)):
        with suppress(OcibridgeError):
            read(made)


@given(st.data())
@settings(deadline=None)
def test_a_damaged_header_ends_in_a_result_or_an_error_of_the_family(data: st.DataObject) -> None:
    good = container({"__metadata__": {"format": "pt"}, **one(), "b": one("BF16", [2, 2], [8, 16])["a"]}, 16)
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    made = bytes(damaged[: data.draw(st.integers(0, len(good)))])
    with suppress(OcibridgeError):
        found = read(made)
        assert found.elements == elements(made)
