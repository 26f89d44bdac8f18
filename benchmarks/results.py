# SPDX-License-Identifier: Apache-2.0
"""Everything that a run of the benchmark has found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .cases import Model
from .floors import COMMIT, PUT, Floor
from .measure import Row, Run


@dataclass(frozen=True)
class Sample:
    """What the threads of one command were seen doing.

    Attributes:
        title: The command, in words.
        lines: Share of the looks at which a thread was in a line, and that line; the largest first.
    """

    title: str
    lines: tuple[tuple[float, str], ...]

    @property
    def syncs(self) -> bool:
        """Whether a thread was seen waiting for the disk."""
        return any("fsync(" in line for _, line in self.lines)


@dataclass(frozen=True)
class Results:
    """The run.

    Attributes:
        one: The model with one weight.
        size: Bytes of that weight.
        carton: Bytes of its carton.
        eight: The model with eight weights.
        many: The folder of small files.
        tiny: The carton of 1 MiB that is pushed again.
        rows: All measurements.
        weight_floors: Steps on the one weight, seconds per GiB.
        file_floors: Steps on the small files, seconds for all.
        push: Sample of pushing the one weight.
        pull: Sample of pulling it to a folder.
        pull_carton: Sample of pulling it to a carton.
    """

    one: Model
    size: int
    carton: int
    eight: Model
    many: Model
    tiny: Model
    rows: Sequence[Row]
    weight_floors: dict[str, Floor]
    file_floors: dict[str, Floor]
    push: Sample
    pull: Sample
    pull_carton: Sample

    @property
    def gib(self) -> float:
        """The one weight in GiB."""
        return self.size / 1024**3

    def run(self, measure: str, tool: str) -> Run | None:
        """What a tool needed; None where it is not installed."""
        return next((row.run for row in self.rows if (row.measure, row.tool) == (measure, tool)), None)

    def seconds(self, *names: str) -> dict[str, float]:
        """Seconds of steps on the one weight."""
        return {name: self.weight_floors[name].wall * self.gib for name in names}

    @property
    def put(self) -> Floor:
        """The registry's whole PUT of the one weight over a plain socket."""
        taken, answered = self.weight_floors[PUT], self.weight_floors[COMMIT]
        both = Floor(taken.wall + answered.wall, taken.cpu + answered.cpu, taken.server + answered.server)
        return both.times(self.gib)
