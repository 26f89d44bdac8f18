# SPDX-License-Identifier: Apache-2.0
"""The reader against the `gguf` package, against arbitrary bytes, and against headers made to hurt it."""

import struct
import tarfile
import tempfile
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocibridge.errors import FormatError, OcibridgeError
from ocibridge.formats import gguf as module
from ocibridge.formats.gguf import FILE_TYPES, TENSOR_TYPES, GgufHeader, read_gguf
from ocibridge.io.content import BytesContent, FileContent
from ocibridge.io.readers import Reader

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODEL_BLOB = "blobs/sha256-5e22d74c95d881f3c6920537511ddf65838199a541aceaf8e4149f675f1a4ff1"

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, body: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + body


def tensor(name: str, shape: tuple[int, ...], kind: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)


def header(
    *parts: bytes,
    pairs: int | None = None,
    tensors: tuple[bytes, ...] = (),
    claimed: int | None = None,
    version: int = 3,
) -> bytes:
    counts = (len(tensors) if claimed is None else claimed, len(parts) if pairs is None else pairs)
    return b"".join((b"GGUF", struct.pack("<IQQ", version, *counts), *parts, *tensors))


def read(data: bytes, **options: Any) -> GgufHeader:
    return read_gguf(BytesContent(data), "model.gguf", **options)


def oracle(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Metadata and elements by tensor type, as the reference package reads them."""
    reader = gguf.GGUFReader(path)
    metadata = {key: each.contents() for key, each in reader.fields.items() if not key.startswith("GGUF.")}
    elements: dict[str, int] = {}
    for each in reader.tensors:
        name = each.tensor_type.name
        elements[name] = elements.get(name, 0) + int(each.n_elements)
    return metadata, elements


def check_against_oracle(path: Path) -> GgufHeader:
    metadata, elements = oracle(path)
    found = read_gguf(FileContent(path), path.name, arrays=metadata.keys())
    assert dict(found.metadata) == {key: value for key, value in metadata.items() if not isinstance(value, list)}
    assert {key: list(value) for key, value in found.arrays.items()} == {
        key: value for key, value in metadata.items() if isinstance(value, list) and len(value) <= module.KEPT_ARRAY
    }
    assert found.elements == elements
    return found


def test_the_model_of_the_ollama_store(tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / "ollama-store.tar") as store:
        member = store.extractfile(MODEL_BLOB)
        assert member is not None
        path = tmp_path / "model.gguf"
        path.write_bytes(member.read())
    found = check_against_oracle(path)
    assert found.known
    assert (found.architecture, found.name, found.kind) == ("llama", "TinyLlama Test", "model")
    assert (found.context_length, found.embedding_length) == (256, 64)
    assert (found.license, found.size_label) == ("mit", "112K")
    assert (found.file_type, found.file_type_guessed) == ("Q8_0", False)
    assert (found.tensors, found.parameters) == (21, 112_448)
    assert found.arrays["general.tags"] == ("test", "text-generation")
    assert "general.tags" not in read_gguf(FileContent(path), path.name).arrays


scalars = st.one_of(
    st.tuples(st.just("add_string"), st.text(min_size=1, max_size=40)),
    st.tuples(st.just("add_bool"), st.booleans()),
    st.tuples(st.just("add_uint8"), st.integers(0, 2**8 - 1)),
    st.tuples(st.just("add_int8"), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just("add_uint16"), st.integers(0, 2**16 - 1)),
    st.tuples(st.just("add_int16"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("add_uint32"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("add_int32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("add_uint64"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("add_int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("add_float32"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("add_float64"), st.floats(allow_nan=False)),
    st.tuples(st.just("add_array"), st.lists(st.text(max_size=9), min_size=1, max_size=9)),
    st.tuples(st.just("add_array"), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=9)),
    st.tuples(st.just("add_array"), st.lists(st.booleans(), min_size=1, max_size=9)),
)
keys = st.text("abcxyz_0.", min_size=1, max_size=20).map("test.".__add__)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)
weights = st.one_of(
    st.tuples(shapes, st.sampled_from([np.float32, np.float16, np.float64, np.int8, np.int32])).map(
        lambda each: (np.zeros(each[0], each[1]), None)
    ),
    st.integers(1, 3).map(
        lambda rows: (
            gguf.quants.quantize(np.zeros((rows, 64), np.float32), gguf.GGMLQuantizationType.Q8_0),
            gguf.GGMLQuantizationType.Q8_0,
        )
    ),
)


@given(st.dictionaries(keys, scalars, max_size=8), st.dictionaries(keys, weights, max_size=6))
@settings(max_examples=60, deadline=None)
def test_headers_of_the_reference_writer(metadata: dict[str, Any], tensors: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        for key, (method, value) in metadata.items():
            getattr(writer, method)(key, value)
        for name, (values, kind) in tensors.items():
            writer.add_tensor(name, values, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        found = check_against_oracle(path)
        assert found.tensors == len(tensors)
        data = bytearray(path.read_bytes())
        data[4] = 2
        assert read(bytes(data)).metadata == found.metadata


def test_names_are_those_of_the_reference_package() -> None:
    named = {each.value: each.name.removeprefix("ALL_").removeprefix("MOSTLY_") for each in gguf.LlamaFileType}
    assert named.pop(module.GUESSED) == "GUESSED"
    assert named.items() <= FILE_TYPES.items()
    assert {each.value: each.name for each in gguf.GGMLQuantizationType}.items() <= TENSOR_TYPES.items()


@pytest.mark.parametrize(
    ("number", "name", "guessed"),
    [
        (7, "Q8_0", False),
        (15, "Q4_K_M", False),
        (32, "BF16", False),
        (38, "MXFP4_MOE", False),
        (1024 + 15, "Q4_K_M", True),
        (4, "Q6_K", True),
        (999, "Q6_K", True),
        (None, "Q6_K", True),
    ],
)
def test_file_type(number: int | None, name: str, guessed: bool) -> None:
    pairs = [pair("general.file_type", U32, struct.pack("<I", number))] if number is not None else []
    tensors = (tensor("norm", (8,), 0), tensor("w", (8, 8), 14), tensor("future", (99, 99), 1000))
    found = read(header(*pairs, tensors=tensors))
    assert (found.file_type, found.file_type_guessed) == (name, guessed)
    assert found.elements == {"F32": 8, "Q6_K": 64, "unknown": 9801}


def test_a_file_without_tensors_has_no_parameters_and_no_type() -> None:
    found = read(header())
    assert (found.parameters, found.file_type, found.architecture, found.context_length) == (None, None, None, None)


def test_typed_access_does_not_mix_types() -> None:
    found = read(
        header(pair("a", BOOL, b"\1"), pair("b", U8, b"\7"), pair("c", STRING, text("")), pair("d", F32, bytes(4)))
    )
    assert [found.number(key) for key in "abcd?"] == [None, 7, None, None, None]
    assert [found.text(key) for key in "abcd?"] == [None] * 5
    assert found.metadata == {"a": True, "b": 7, "c": "", "d": 0.0}


@pytest.mark.parametrize("version", [1, 4, 0x03000000, 0x02000000])
def test_other_versions_are_carried_without_metadata(version: int) -> None:
    found = read(header(pair("a", U8, b"\7"), version=version))
    assert found == GgufHeader(version)
    assert not found.known
    assert found.parameters is None
    assert found.file_type is None


def test_big_endian_files_of_the_reference_writer_are_carried_without_metadata(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    assert not read_gguf(FileContent(tmp_path / "big.gguf"), "big.gguf").known


def test_nested_and_long_arrays_are_stepped_over() -> None:
    nested = array(ARRAY, 2, array(STRING, 1, text("x")) + array(ARRAY, 1, array(U16, 2, bytes(4))))
    found = read(
        header(
            pair("nested", ARRAY, nested),
            pair("long", ARRAY, array(U8, 2000, bytes(2000))),
            pair("words", ARRAY, array(STRING, 1, text("a" * (module.KEPT_STRING + 1)))),
            pair("none", ARRAY, array(STRING, 0)),
            pair("end", U8, b"\7"),
        ),
        arrays=["nested", "long", "words", "none", "absent"],
    )
    assert found.metadata == {"end": 7}
    assert found.arrays == {"none": ()}


def test_strings_are_kept_up_to_a_limit() -> None:
    kept = module.KEPT_STRING
    found = read(
        header(
            pair("long", STRING, text("a" * (kept + 1))),
            pair("fits", STRING, text("a" * kept)),
            pair("odd", STRING, text(b"a\xffb")),
        )
    )
    assert found.metadata == {"fits": "a" * kept, "odd": "a\ufffdb"}
    many = read(header(*(pair(str(index), STRING, text("a" * kept)) for index in range(40))))
    assert sum(len(key) + len(str(value)) for key, value in many.metadata.items()) <= module.KEPT_TOTAL
    assert len(many.metadata) == 31


HUGE = 2**64 - 1
REFUSED = {
    "empty": (b"", "is not a GGUF file"),
    "magic only": (b"GGUF", "is not a GGUF file"),
    "other magic": (b"GGML" + bytes(100), "is not a GGUF file"),
    "version 0": (b"GGUF" + bytes(100), "version 0"),
    "no counts": (b"GGUF\3\0\0\0", "ends inside"),
    "pairs": (header(pairs=HUGE), "metadata pairs"),
    "pairs missing": (header(pairs=2), "ends inside"),
    "tensors": (header(claimed=HUGE), "tensors, more than"),
    "tensors missing": (header(claimed=1000), "ends inside"),
    "key length": (header(struct.pack("<Q", HUGE) + bytes(90), pairs=1), "metadata key of"),
    "key not UTF-8": (header(pair(b"\xff", U8, b"\0")), "not UTF-8"),
    "key twice": (header(pair("a", U8, b"\0"), pair("a", U8, b"\0")), "'a' twice"),
    "key total": (header(*(pair(f"{index:065000}", U8, b"\0") for index in range(130))), "MiB of metadata"),
    "string length": (header(pair("a", STRING, struct.pack("<Q", HUGE))), "ends inside"),
    "string beyond the end": (header(pair("a", STRING, struct.pack("<Q", 9) + bytes(8))), "ends inside"),
    "value type": (header(pair("a", 13, bytes(8))), "unknown type 13"),
    "array type": (header(pair("a", ARRAY, array(13, 1, bytes(8)))), "unknown type 13"),
    "array length": (header(pair("a", ARRAY, array(U64, HUGE))), "ends inside"),
    "array strings": (header(pair("a", ARRAY, array(STRING, HUGE))), "strings in its arrays"),
    "array string length": (
        header(pair("a", ARRAY, array(STRING, 2, text("x") + struct.pack("<Q", HUGE)))),
        "ends inside",
    ),
    "arrays together": (
        header(pair("a", ARRAY, array(ARRAY, 2, array(ARRAY, module.MAX_ELEMENTS)))),
        "strings in its arrays",
    ),
    "nesting": (header(pair("a", ARRAY, array(ARRAY, 1) * 100)), "deeper than 4"),
    "boolean": (header(pair("a", BOOL, b"\2")), "boolean with the value 2"),
    "tensor name": (header(tensors=(struct.pack("<Q", HUGE) + bytes(90),)), "tensor name of"),
    "dimensions": (header(tensors=(text("a") + struct.pack("<I", 2**32 - 1) + bytes(90),)), "dimensions"),
    "elements": (header(tensors=(tensor("a", (2**32, 2**32)),)), "elements"),
    "tensor cut": (header(tensors=(tensor("a", (2, 2, 2)),))[:-1], "ends inside"),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(data: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        read(data)
    assert str(caught.value).startswith("model.gguf ")


class Sparse:
    """A header followed by zeros that nobody stores; remembers how much was asked for."""

    def __init__(self, start: bytes, size: int) -> None:
        self.start = start
        self.size = size
        self.reads = 0
        self.bytes = 0

    def open(self, offset: int = 0) -> Reader:
        owner = self

        class Stream(Reader):
            def readable(self) -> bool:
                return True

            def readinto(self, buffer: object, /) -> int:
                view = memoryview(buffer).cast("B")[: owner.size - owner.bytes]  # type: ignore[arg-type]
                part = owner.start[owner.bytes : owner.bytes + len(view)]
                view[: len(part)] = part
                view[len(part) :] = bytes(len(view) - len(part))
                owner.reads += 1
                owner.bytes += len(view)
                return len(view)

        return Stream()


@pytest.mark.parametrize(
    "value",
    [array(U64, 2**40), array(STRING, 2**20, text("x") * 9 + struct.pack("<Q", 2**40))],
    ids=["numbers", "one long string"],
)
def test_a_header_that_fills_a_huge_file_is_refused_at_once(value: bytes) -> None:
    content = Sparse(header(pair("a", ARRAY, value)), 2**50)
    with pytest.raises(FormatError, match="header of more than 256 MiB"):
        read_gguf(content, "model.gguf")
    assert content.reads == 1


def test_a_file_that_became_shorter_is_refused() -> None:
    class Cut(BytesContent):
        @property
        def size(self) -> int:
            return 1000

    with pytest.raises(FormatError, match="ends inside"):
        read_gguf(Cut(header(pairs=1)), "model.gguf")


def test_tokenizer_of_128k_tokens_in_one_pass_and_one_window() -> None:
    tokens = b"".join(text(f"token{index}") for index in range(128_000))
    merges = b"".join(text(f"left{index} right") for index in range(280_000))
    data = header(
        pair("general.architecture", STRING, text("llama")),
        pair("tokenizer.ggml.tokens", ARRAY, array(STRING, 128_000, tokens)),
        pair("tokenizer.ggml.token_type", ARRAY, array(I32, 128_000, bytes(4 * 128_000))),
        pair("tokenizer.ggml.merges", ARRAY, array(STRING, 280_000, merges)),
        pair("llama.context_length", U32, struct.pack("<I", 131_072)),
        tensors=tuple(tensor(f"blk.{index}.attn_q.weight", (4096, 4096), 12) for index in range(300)),
    )
    content = Sparse(data, len(data) + 2**33)
    tracemalloc.start()
    try:
        found = read_gguf(content, "model.gguf")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.architecture, found.context_length, found.file_type) == ("llama", 131_072, "Q4_K")
    assert found.parameters == 300 * 4096 * 4096
    assert peak < 4 * module.WINDOW
    assert content.reads <= len(data) // module.WINDOW + 2
    assert content.bytes <= len(data) + module.WINDOW


@given(st.integers(9, 200), st.lists(st.text(max_size=30), max_size=30), st.integers(0, 60))
def test_the_size_of_the_window_does_not_matter(window: int, words: list[str], numbers: int) -> None:
    data = header(
        pair("words", ARRAY, array(STRING, len(words), b"".join(map(text, words)))),
        pair("numbers", ARRAY, array(U16, numbers, bytes(2 * numbers))),
        pair("end", U64, struct.pack("<Q", 7)),
        tensors=(tensor("w", (2, 3)),),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW", max(window, 32))
        found = read(data)
    assert found == read(data)
    assert (found.metadata, found.elements) == ({"end": 7}, {"F32": 6})


@given(st.binary(max_size=300))
def test_arbitrary_bytes_after_the_magic(data: bytes) -> None:
    with suppress(OcibridgeError):
        read(b"GGUF\3\0\0\0" + data)


@given(st.data())
def test_a_damaged_header_ends_in_a_result_or_an_error_of_the_family(data: st.DataObject) -> None:
    good = header(
        pair("general.architecture", STRING, text("llama")),
        pair("tokenizer.ggml.tokens", ARRAY, array(STRING, 3, text("a") * 3)),
        pair("deep", ARRAY, array(ARRAY, 2, array(U8, 1, b"\1") * 2)),
        pair("yes", BOOL, b"\1"),
        tensors=(tensor("a", (2, 3)), tensor("b", (5,), 8)),
    )
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with suppress(OcibridgeError):
        found = read(bytes(damaged[: data.draw(st.integers(0, len(good)))]), arrays=["tokenizer.ggml.tokens"])
        assert all(count >= 0 for count in found.elements.values())
        "".join(value for value in found.metadata.values() if isinstance(value, str)).encode()
