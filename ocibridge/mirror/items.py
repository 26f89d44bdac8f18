# SPDX-License-Identifier: Apache-2.0
"""The items of plans and reports, of which there may be very many: they are in a temporary file, not in memory."""

from __future__ import annotations

import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar, overload

from ..errors import writing
from ..settings import KiB

if TYPE_CHECKING:
    from pydantic import BaseModel

    Item = TypeVar("Item", bound=BaseModel)
else:
    Item = TypeVar("Item")

_IN_MEMORY = 64 * KiB
"""Bytes of items that need no file."""


class ItemList(Sequence[Item], Generic[Item]):
    """A sequence of items; each is parsed when it is read. Not thread-safe.

    Args:
        kind: Type of the items.
    """

    def __init__(self, kind: type[Item]) -> None:
        self._kind = kind
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="ocibridge-")
        weakref.finalize(self, self._file.close)
        self._end = 0
        self._keys = array("q")
        self._starts = array("q")
        self._order: Sequence[int] | None = None

    def add(self, item: Item, key: int) -> None:
        """Add an item, which is sorted by `key`, then by when it was added.

        Raises:
            DestinationError: the temporary file cannot be written.
        """
        with writing("a temporary file"):
            self._file.seek(self._end)
            line = item.model_dump_json().encode() + b"\n"
            self._file.write(line)
        self._keys.append(key)
        self._starts.append(self._end)
        self._end += len(line)
        self._order = None

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: Any) -> Any:
        if self._order is None:
            self._order = array("q", sorted(range(len(self)), key=self._keys.__getitem__))
        places = self._order[index]
        return [self._read(place) for place in places] if isinstance(index, slice) else self._read(places)

    def __iter__(self) -> Iterator[Item]:
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} of {self._kind.__name__}>"

    def _read(self, place: int) -> Item:
        self._file.seek(self._starts[place])
        return self._kind.model_validate_json(self._file.readline())
