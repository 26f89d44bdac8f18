# SPDX-License-Identifier: Apache-2.0
"""What the mirror benchmark has found out, and what its measures are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocibridge.settings import MiB

from .floors import Floor
from .measure import Row, Run
from .mirror_requests import Traffic

OURS, PINNED, SKOPEO = "ocibridge", "ocibridge, digests pinned", "skopeo sync"
REGSYNC = "regsync"
CURL = "curl to curl, by a pipe"
ROUND_TRIP = 20
"""Milliseconds that are added to each round trip to a registry, where there is a cluster."""


@dataclass(frozen=True)
class Amount:
    """How much is measured, and how often.

    Attributes:
        artifacts: Small artifacts.
        rounds: Rounds of them.
        size: Bytes of the large weight.
        large_rounds: Rounds of it.
        far: Small artifacts for the cluster.
        workers: Workers of the cluster, compared with one.
        far_rounds: Rounds of that.
    """

    artifacts: int
    rounds: int
    size: int
    large_rounds: int
    far: int
    workers: int
    far_rounds: int


@dataclass(frozen=True)
class Taken:
    """One run.

    Attributes:
        run: Its figures; those of the server are the two registries'.
        source: What was asked of the source.
        target: What was asked of the target.
        others: Processor seconds of the cluster and of what makes the registries far away.
    """

    run: Run
    source: Traffic
    target: Traffic
    others: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Some runs of one command.

    Attributes:
        row: Their medians, and the largest memory and disk.
        tags: Tags that each run brought into step.
        source: Requests at the source, the most of all runs.
        target: Requests at the target, the most of all runs.
        others: See `Taken`; the median.
    """

    row: Row
    tags: int
    source: Traffic
    target: Traffic
    others: float

    @property
    def rate(self) -> float:
        """Tags a second."""
        return self.tags / self.row.run.wall

    @property
    def cpu(self) -> float:
        """Processor seconds of all that took part."""
        return self.row.run.cpu + self.row.run.server + self.others


@dataclass(frozen=True)
class Mirrored:
    """Everything that was found out.

    Attributes:
        amount: How much of it.
        rows: The measurements.
        hashing: Seconds that the sha256 of the large weight takes, when nothing else is done.
        pushing: Seconds of pushing the small artifacts to one registry over plain sockets, `THREADS` at a time.
        heads: The HEAD of each small artifact at both registries over plain sockets, one after the other.
    """

    amount: Amount
    rows: Sequence[Measured]
    hashing: float
    pushing: float
    heads: Floor

    def find(self, measure: str, tool: str) -> Measured | None:
        """A measurement; None where it was not made."""
        return next((each for each in self.rows if (each.row.measure, each.row.tool) == (measure, tool)), None)


@dataclass(frozen=True)
class Names:
    """What the measures are called."""

    amount: Amount

    @property
    def cold(self) -> str:
        """Small artifacts for the first time."""
        return f"{self.amount.artifacts} small artifacts, cold"

    @property
    def again(self) -> str:
        """The same when the target has them."""
        return f"{self.amount.artifacts} small artifacts, nothing new"

    @property
    def one(self) -> str:
        """A single artifact when the target has it."""
        return "1 small artifact, nothing new"

    @property
    def large(self) -> str:
        """The large weight."""
        return f"a weight of {size_of(self.amount.size)}, registry to registry"

    @property
    def same(self) -> str:
        """The large weight within a registry."""
        return f"a weight of {size_of(self.amount.size)}, to another repository of the registry"

    @property
    def far(self) -> str:
        """Small artifacts by a cluster."""
        return f"{self.amount.far} small artifacts, {ROUND_TRIP} ms away, by Dask"

    def tags(self, measure: str) -> int:
        """Tags that each run of a measure brings into step."""
        counts = {self.cold: self.amount.artifacts, self.again: self.amount.artifacts, self.far: self.amount.far}
        return counts.get(measure, 1)

    def workers(self, number: int) -> str:
        """What stands for the tool in `far`."""
        return "1 worker" if number == 1 else f"{number} workers"


def size_of(count: int) -> str:
    """Bytes in words."""
    return f"{count // (1024 * MiB)} GiB" if count % (1024 * MiB) == 0 else f"{count // MiB} MiB"
