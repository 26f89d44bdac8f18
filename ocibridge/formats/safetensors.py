# SPDX-License-Identifier: Apache-2.0
"""The header of a safetensors file: names, types, shapes and places of its tensors, never their data.

Follows the README of safetensors ("Format"), and checks what its reference implementation checks.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import FormatError
from ..io.content import Content
from ..io.readers import read_full
from ..oci.document import parse_json
from ..paths import show
from .facts import dominant

MAX_HEADER = 100_000_000
"""Bytes of JSON; the reference implementation has the same limit."""
MAX_VALUES = 1 << 21
"""JSON values in the header, counted by their separators: about 260,000 tensors."""
MAX_WORD = (1 << 64) - 1
"""Elements, bits and places; the reference implementation counts them in a machine word."""

BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element by dtype."""


class SafetensorsHeader(NamedTuple):
    """Contents of the header of a safetensors file.

    Attributes:
        metadata: The strings under `__metadata__`.
        tensors: Number of tensors.
        elements: Elements (parameters) by dtype.
    """

    metadata: Mapping[str, str]
    tensors: int
    elements: Mapping[str, int]

    @property
    def parameters(self) -> int | None:
        """Elements of all tensors, or None where there are none."""
        return sum(self.elements.values()) or None

    @property
    def dtype(self) -> str | None:
        """The dtype that most elements have."""
        return dominant(self.elements)


def read_safetensors(content: Content, owner: str) -> SafetensorsHeader:
    """Read and check the header of a safetensors file.

    Args:
        content: The file; only its header is read.
        owner: Description of the file for messages.

    Raises:
        FormatError: the bytes are no safetensors file, the header is longer than the limits of this module, repeats a
            key, or places the tensors so that they overlap, leave gaps, or do not fill the file.
        SourceError: the file cannot be read.
    """
    data = _header_bytes(content, owner)
    header = parse_json(data, f"{owner}: the safetensors header", MAX_HEADER)
    metadata = _metadata(header.pop("__metadata__", None), owner)
    elements: dict[str, int] = {}
    places = []
    for name, info in header.items():
        dtype, count, begin, end = _tensor(name, info, owner)
        elements[dtype] = elements.get(dtype, 0) + count
        places.append((begin, end))
    filled = 0
    for begin, end in sorted(places):
        if begin != filled:
            raise FormatError(f"{owner}: the tensors overlap or leave a gap at byte {min(begin, filled)} of the data")
        filled = end
    present = content.size - 8 - len(data)
    if filled != present:
        raise FormatError(
            f"{owner}: the tensors need {filled} bytes, the file has {present}",
            hint="it may be cut off; get it again from where it came from",
        )
    return SafetensorsHeader(metadata, len(places), elements)


def _header_bytes(content: Content, owner: str) -> bytes:
    with content.open() as reader:
        start = bytearray(8)
        if read_full(reader, memoryview(start)) < 8:
            raise FormatError(f"{owner} is not a safetensors file: it has fewer than 8 bytes")
        (length,) = struct.unpack("<Q", start)
        if length > MAX_HEADER:
            raise FormatError(
                f"{owner} is not a safetensors file: it claims a header of {length} bytes, "
                f"more than the {MAX_HEADER} allowed"
            )
        if length > content.size - 8:
            raise FormatError(f"{owner} ends inside its safetensors header")
        data = bytearray(length)
        if read_full(reader, memoryview(data)) < length:
            raise FormatError(f"{owner} ends inside its safetensors header")
    if data[:1] != b"{" or b"\0" in data:  # a NUL is never JSON in UTF-8, and is all that UTF-16 and UTF-32 need
        raise FormatError(f"{owner} is not a safetensors file: its header is not a JSON object in UTF-8")
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise FormatError(f"{owner} has more than {MAX_VALUES} values in its safetensors header")
    return bytes(data)


def _metadata(value: Any, owner: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(_plain(text) for pair in value.items() for text in pair):
        raise FormatError(f"{owner}: __metadata__ is not a map of plain strings")
    return value


def _tensor(name: str, info: Any, owner: str) -> tuple[str, int, int, int]:
    """Dtype, number of elements, and first and last place of one tensor."""
    where = f"{owner}: the tensor {show(name)}"
    if not _plain(name) or not isinstance(info, dict):
        raise FormatError(f"{where} has no proper name or description")
    dtype, shape, offsets = info.get("dtype"), info.get("shape"), info.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise FormatError(f"{where} has the unknown dtype {show(str(dtype))}")
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise FormatError(f"{where} has no proper shape or data_offsets")
    if not all(type(each) is int and 0 <= each <= MAX_WORD for each in (*shape, *offsets)):
        raise FormatError(f"{where} has a shape or data_offsets that are no natural numbers")
    count, bits = 1, BITS[dtype]
    for size in shape:
        count *= size
        if count * bits > MAX_WORD:
            raise FormatError(f"{where} claims more elements than any file can hold")
    bits *= count
    begin, end = offsets
    if bits % 8 or end - begin != bits // 8:
        raise FormatError(f"{where} has a dtype and shape that do not match its data_offsets")
    return dtype, count, begin, end


def _plain(text: Any) -> bool:
    """Return whether `text` is a string without NUL and lone surrogates, as the reference implementation requires."""
    return isinstance(text, str) and not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)
