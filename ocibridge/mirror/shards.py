# SPDX-License-Identifier: Apache-2.0
"""One job on several machines: who does what follows from names alone, so nobody has to ask anybody."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from .. import settings
from ..errors import UsageError

_SHARD = re.compile(r"(\d{0,6})/(\d{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a job.

    Attributes:
        index: Which one, from 0, as Kubernetes counts the pods of an Indexed Job.
        count: How many there are.
    """

    index: int
    count: int

    @staticmethod
    def parse(text: str) -> Shard:
        """Parse `INDEX/COUNT`; without the index, `/COUNT`, it is `JOB_COMPLETION_INDEX` of the environment.

        Example:
            >>> Shard.parse("3/16")
            Shard(index=3, count=16)

        Raises:
            UsageError: it is no shard, or the environment has no index.
        """
        found = _SHARD.fullmatch(text)
        if not found:
            raise UsageError(f"{text!r} is no shard", hint="write INDEX/COUNT, such as 0/16 for the first of sixteen")
        index = found[1] or settings.job_completion_index()
        if index is None:
            raise UsageError(
                f"the shard {text!r} has no index, and the environment has no JOB_COMPLETION_INDEX",
                hint="write INDEX/COUNT, or run it in an Indexed Job",
            )
        if not index.isascii() or not index.isdigit() or int(index) >= int(found[2]):
            raise UsageError(
                f"there is no shard {index} of {found[2]}",
                hint="the index counts from 0, and is less than the number of shards",
            )
        return Shard(int(index), int(found[2]))

    def has(self, key: str) -> bool:
        """Return whether what has this name belongs to this shard; every name belongs to exactly one.

        Example:
            >>> sum(Shard(index, 16).has("models/digits") for index in range(16))
            1
        """
        return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % self.count == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
