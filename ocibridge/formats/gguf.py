# SPDX-License-Identifier: Apache-2.0
"""The header of a GGUF file: metadata and tensor descriptions, never tensor data.

Follows `docs/gguf.md` of ggml ("File Structure"). The header is read forwards through one small buffer; arrays, such
as a tokenizer's hundred thousands of strings, are stepped over and never become objects.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import FormatError
from ..io.content import Content
from ..io.readers import Reader, read_full
from ..paths import show
from ..settings import KiB, MiB
from .facts import dominant

MAGIC = b"GGUF"
"""The first four bytes of every GGUF file."""

WINDOW = MiB
"""Bytes of the header in memory at any time."""
MAX_HEADER = 256 * MiB
"""Largest header in bytes; the largest tokenizers need about 15 MiB."""
MAX_PAIRS = 1 << 16
"""Metadata pairs of one file."""
MAX_TENSORS = 1 << 20
"""Tensors of one file."""
MAX_ELEMENTS = 1 << 22
"""Strings and arrays inside the arrays of one file, taken together."""
MAX_DEPTH = 4
"""Arrays inside arrays."""
MAX_NAME = (1 << 16) - 1
"""Bytes of a key ("it must be at most 2^16-1 bytes long") or of a tensor's name."""
MAX_DIMENSIONS = 8
"""Dimensions of a tensor; ggml has four today."""
MAX_PARAMETERS = (1 << 63) - 1
"""Elements of one tensor; ggml counts them in a signed 64-bit integer."""
KEPT_STRING = 256 * KiB
"""Bytes of a string value above which it is stepped over, not kept."""
KEPT_TOTAL = 8 * MiB
"""Bytes of all keys and string values kept from one file."""
KEPT_ARRAY = 1024
"""Elements of an array above which it is stepped over even if it was asked for."""

Scalar = str | int | float | bool
"""A metadata value that is no array."""

FILE_TYPES: Mapping[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    # 4 was Q4_1 with some F16 and is MXFP4 in files that Ollama wrote: there the tensors decide.
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    33: "Q4_0_4_4",
    34: "Q4_0_4_8",
    35: "Q4_0_8_8",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""`general.file_type` (`enum llama_ftype` of llama.cpp) by number."""

GUESSED = 1024
"""Bit of `general.file_type` that says llama.cpp took it from the tensors, not from who made the file."""

TENSOR_TYPES: Mapping[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    30: "BF16",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
    42: "Q2_0",
}
"""`enum ggml_type` by number."""

UNKNOWN = "unknown"
"""Stands for every tensor type that `TENSOR_TYPES` lacks."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Contents of the header of a GGUF file.

    Attributes:
        version: Version of the container. Only 2 and 3 (little-endian) are read; a header of any other version, which
            is also how a big-endian file looks, knows nothing but this number.
        metadata: Scalar values by key. Strings above `KEPT_STRING` bytes, or beyond `KEPT_TOTAL` bytes in all, are
            missing; bytes that are no UTF-8 are replaced.
        arrays: The arrays that were asked for and have at most `KEPT_ARRAY` scalars.
        tensors: Number of tensors.
        elements: Elements (parameters) by tensor type; those that `TENSOR_TYPES` lacks are `unknown`.
    """

    version: int
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    arrays: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    tensors: int = 0
    elements: Mapping[str, int] = field(default_factory=dict)

    def text(self, key: str) -> str | None:
        """The value of `key` if it is a string and not empty."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) and value else None

    def number(self, key: str) -> int | None:
        """The value of `key` if it is an integer."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def known(self) -> bool:
        """True if this version of the container is supported; other files are stored without metadata."""
        return self.version in (2, 3)

    @property
    def architecture(self) -> str | None:
        """`general.architecture`, such as `llama`."""
        return self.text("general.architecture")

    @property
    def name(self) -> str | None:
        """`general.name`."""
        return self.text("general.name")

    @property
    def kind(self) -> str | None:
        """`general.type`: `model`, `adapter`, `mmproj` and the like."""
        return self.text("general.type")

    @property
    def license(self) -> str | None:
        """`general.license`, by its convention an SPDX expression."""
        return self.text("general.license")

    @property
    def size_label(self) -> str | None:
        """`general.size_label`, such as `8x7B`."""
        return self.text("general.size_label")

    @property
    def context_length(self) -> int | None:
        """`<architecture>.context_length`, in tokens."""
        return self.number(f"{self.architecture}.context_length")

    @property
    def embedding_length(self) -> int | None:
        """`<architecture>.embedding_length`."""
        return self.number(f"{self.architecture}.embedding_length")

    @property
    def parameters(self) -> int | None:
        """Elements of all tensors, or None where there are none."""
        return sum(self.elements.values()) or None

    @property
    def file_type(self) -> str | None:
        """Name of `general.file_type`, such as `Q4_K_M`; where that is absent or unknown, of the type that most
        elements have, such as `Q4_K`."""
        number = self.number("general.file_type")
        named = FILE_TYPES.get(number & ~GUESSED) if number is not None else None
        return named or dominant({name: count for name, count in self.elements.items() if name != UNKNOWN})

    @property
    def file_type_guessed(self) -> bool:
        """True if `file_type` is what the tensors suggest, not what whoever made the file says."""
        number = self.number("general.file_type")
        return number is None or bool(number & GUESSED) or number not in FILE_TYPES


def read_gguf(content: Content, owner: str, *, arrays: Collection[str] = ()) -> GgufHeader:
    """Read the header of a GGUF file.

    Args:
        content: The file; only its header is read, in order, with `WINDOW` bytes of memory.
        owner: Description of the file for messages.
        arrays: Keys of the arrays to keep, such as `general.tags`.

    Raises:
        FormatError: the bytes are no GGUF file, end inside the header, or claim more than the limits of this module.
        SourceError: the file cannot be read.
    """
    with content.open() as reader:
        cursor = _Cursor(reader, content.size, owner)
        if content.size < 8 or cursor.take(4) != MAGIC:
            raise cursor.error("is not a GGUF file")
        version = cursor.u32()
        if version == 0:
            raise cursor.error("has the version 0, which does not exist")
        if version not in (2, 3):
            return GgufHeader(version)
        tensors, pairs = cursor.unpack(_COUNTS)
        cursor.expect(tensors, MAX_TENSORS, _TENSOR_BYTES, "tensors")
        cursor.expect(pairs, MAX_PAIRS, _PAIR_BYTES, "metadata pairs")
        metadata, kept = _read_pairs(cursor, pairs, frozenset(arrays))
        return GgufHeader(version, metadata, kept, tensors, _read_tensors(cursor, tensors))


_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_COUNTS = struct.Struct("<QQ")
_ARRAY = struct.Struct("<IQ")
_PLACE = struct.Struct("<IQ")
_PAIR_BYTES = 8 + 4 + 1
_TENSOR_BYTES = 8 + 4 + 4 + 8
_BOOL, _STRING, _NESTED = 7, 8, 9
_SCALARS = {kind: struct.Struct(f"<{code}") for kind, code in zip((*range(8), 10, 11, 12), "BbHhIifBQqd", strict=True)}


class _Cursor:
    """Reads forwards over the header; `window[pos:end]` has been read and not yet used."""

    def __init__(self, reader: Reader, size: int, owner: str) -> None:
        self._reader = reader
        self._left = min(size, MAX_HEADER)
        self._cut = size > MAX_HEADER
        self._owner = owner
        self._kept = KEPT_TOTAL
        self._elements = MAX_ELEMENTS
        self._window = bytearray(min(self._left, WINDOW))
        self._pos = self._end = 0

    def error(self, what: str) -> FormatError:
        return FormatError(f"{self._owner} {what}")

    def expect(self, count: int, limit: int, least: int, what: str) -> None:
        """Refuse `count` things of at least `least` bytes each that cannot or may not follow."""
        if count > limit:
            raise self.error(f"claims {count} {what}, more than the {limit} accepted")
        if count * least > self._end - self._pos + self._left:
            raise self._short()

    def spend(self, count: int) -> None:
        """Count elements that have to be visited one by one."""
        self._elements -= count
        if self._elements < 0:
            raise self.error(f"claims more than {MAX_ELEMENTS} strings in its arrays")

    def keep(self, size: int) -> bool:
        """Return whether `size` more bytes may be kept."""
        if size > self._kept:
            return False
        self._kept -= size
        return True

    def take(self, size: int) -> bytes:
        """The next `size` bytes (at most `WINDOW`)."""
        self._need(size)
        start = self._pos
        self._pos += size
        return bytes(self._window[start : self._pos])

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        self._need(layout.size)
        values = layout.unpack_from(self._window, self._pos)
        self._pos += layout.size
        return values

    def u32(self) -> int:
        return int(self.unpack(_U32)[0])

    def u64(self) -> int:
        return int(self.unpack(_U64)[0])

    def skip(self, size: int) -> None:
        ahead = self._end - self._pos
        if size > ahead + self._left:
            raise self._short()
        while size > ahead:
            size -= ahead
            self._pos = self._end
            self._need(min(size, len(self._window)))
            ahead = self._end - self._pos
        self._pos += size

    def skip_strings(self, count: int) -> None:
        """Step over `count` strings: the one loop that runs hundreds of thousands of times."""
        length_at = _U64.unpack_from
        while count:
            self._need(8)
            window, pos, last = self._window, self._pos, self._end - 8
            while count and pos <= last:
                pos += 8 + length_at(window, pos)[0]
                count -= 1
            beyond = max(0, pos - self._end)
            self._pos = pos - beyond
            self.skip(beyond)

    def _need(self, size: int) -> None:
        """Have `size` bytes (at most `WINDOW`) in the window."""
        ahead = self._end - self._pos
        if size <= ahead:
            return
        if size > ahead + self._left:
            raise self._short()
        self._window[:ahead] = self._window[self._pos : self._end]
        target = memoryview(self._window)[ahead : ahead + self._left]
        count = read_full(self._reader, target)
        self._left -= count
        self._pos, self._end = 0, ahead + count
        if size > self._end:
            raise self._short()

    def _short(self) -> FormatError:
        if self._cut:
            return self.error(f"claims a header of more than {MAX_HEADER // MiB} MiB")
        return self.error("ends inside its GGUF header")


def _read_pairs(
    cursor: _Cursor, count: int, wanted: frozenset[str]
) -> tuple[dict[str, Scalar], dict[str, tuple[Scalar, ...]]]:
    metadata: dict[str, Scalar] = {}
    arrays: dict[str, tuple[Scalar, ...]] = {}
    seen = set()
    for _ in range(count):
        key = _read_key(cursor)
        if key in seen:
            raise cursor.error(f"has the metadata key {show(key)} twice")
        seen.add(key)
        kind = cursor.u32()
        if kind == _NESTED:
            values = _read_array(cursor, keep=key in wanted)
            if values is not None:
                arrays[key] = values
        else:
            value = _read_scalar(cursor, kind)
            if value is not None:
                metadata[key] = value
    return metadata, arrays


def _read_key(cursor: _Cursor) -> str:
    size = cursor.u64()
    if size > MAX_NAME:
        raise cursor.error(f"claims a metadata key of {size} bytes, more than the {MAX_NAME} allowed")
    if not cursor.keep(size):
        raise cursor.error(f"has more than {KEPT_TOTAL // MiB} MiB of metadata")
    try:
        return cursor.take(size).decode()
    except UnicodeDecodeError:
        raise cursor.error("has a metadata key that is not UTF-8") from None


def _read_scalar(cursor: _Cursor, kind: int) -> Scalar | None:
    """The next value, or None for a string that is too long to keep."""
    if kind == _STRING:
        size = cursor.u64()
        if size <= KEPT_STRING and cursor.keep(size):
            return cursor.take(size).decode(errors="replace")
        cursor.skip(size)
        return None
    layout = _SCALARS.get(kind)
    if layout is None:
        raise cursor.error(f"has a metadata value of the unknown type {kind}")
    value: int | float = cursor.unpack(layout)[0]
    if kind != _BOOL:
        return value
    if value not in (0, 1):
        raise cursor.error(f"has a boolean with the value {value}")
    return bool(value)


def _read_array(cursor: _Cursor, keep: bool = False, depth: int = 1) -> tuple[Scalar, ...] | None:
    """The next array, or None once it has been stepped over."""
    kind, count = cursor.unpack(_ARRAY)
    if kind in (_STRING, _NESTED):
        cursor.spend(count)
    if kind == _NESTED:
        if depth == MAX_DEPTH:
            raise cursor.error(f"nests arrays deeper than {MAX_DEPTH} levels")
        for _ in range(count):
            _read_array(cursor, depth=depth + 1)
        return None
    if keep and count <= KEPT_ARRAY:
        values = [_read_scalar(cursor, kind) for _ in range(count)]
        return None if None in values else tuple(value for value in values if value is not None)
    if kind == _STRING:
        cursor.skip_strings(count)
    elif kind in _SCALARS:
        cursor.skip(count * _SCALARS[kind].size)
    else:
        raise cursor.error(f"has an array of the unknown type {kind}")
    return None


def _read_tensors(cursor: _Cursor, count: int) -> dict[str, int]:
    """Elements by tensor type, from `count` tensor descriptions."""
    elements: dict[str, int] = {}
    for _ in range(count):
        size = cursor.u64()
        if size > MAX_NAME:
            raise cursor.error(f"claims a tensor name of {size} bytes")
        cursor.skip(size)
        dimensions = cursor.u32()
        if dimensions > MAX_DIMENSIONS:
            raise cursor.error(f"claims a tensor of {dimensions} dimensions")
        shape = struct.unpack(f"<{dimensions}Q", cursor.take(8 * dimensions))
        product = math.prod(shape)
        if product > MAX_PARAMETERS:
            raise cursor.error(f"claims a tensor of {product} elements")
        kind, _offset = cursor.unpack(_PLACE)
        name = TENSOR_TYPES.get(kind, UNKNOWN)
        elements[name] = elements.get(name, 0) + product
    return elements
