# SPDX-License-Identifier: Apache-2.0
"""Reports of a mirror job: the plan, and the report of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, WrapValidator

from ..report import Failure as Failure
from ..report import JsonReport, Moves, Report, Time, schema_named
from ..transfer.events import Event
from .items import ItemList

PlannedAction = Literal["copy", "skip", "prune", "keep"]
Outcome = Literal["copied", "skipped", "pruned", "kept", "failed"]

FAILED = "failed"
ACTIONS: tuple[str, ...] = (*get_args(PlannedAction), FAILED)
"""Keys of the `counts` of a plan."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""Keys of the `counts` of a run."""
IN_SYNC = "in sync"
"""The reason for skipping a tag of which nothing is missing at the target."""

Item = TypeVar("Item", bound=Report)


def _stored(value: Any, validate: Callable[[Any], Any]) -> Any:
    return value if isinstance(value, ItemList) else validate(value)


Items = Annotated[Sequence[Item], WrapValidator(_stored)]
"""A list, or an `ItemList`, which stays one."""


class ItemReport(JsonReport):
    """Base of reports with `items`, which may be too many to be in memory."""

    def json_pieces(self, indent: int | None = 2) -> Iterator[str]:
        """See `Report.json_pieces`: the items are pieces of their own."""
        items: Sequence[Report] = self.items  # type: ignore[attr-defined]
        text = self.model_copy(update={"items": []}).model_dump_json(by_alias=True, indent=indent)
        # In a string, the quotation marks would be escaped.
        before, mark, after = text.partition('"items": [' if indent else '"items":[')
        margin, last = " " * (2 * indent) if indent else "", len(items) - 1
        if last < 0:
            yield text
            return
        yield before + mark
        for number, item in enumerate(items):
            one = item.model_dump_json(by_alias=True, indent=indent).replace("\n", f"\n{margin}")
            yield margin + one + ("," if number < last else "")
        yield (" " * indent if indent else "") + after


class PlannedItem(Report):
    """One tag, and what would be done with it.

    Attributes:
        entry: Number of the `sync` entry in the job file, from 0.
        action: `copy`, `skip` (source and target are in sync), `prune` (delete the tag `target`), or `keep` (it would
            be pruned, but for `reason`).
        source: Reference with the tag; None where something is pruned.
        target: Reference with the tag.
        digest: Digest of the manifest or index that the tag shall have, or that is pruned.
        replaces: Digest that the tag has at the target now; None where there is no such tag.
        reason: Why, in a few words.
        moves: What it would move.
    """

    entry: int
    action: PlannedAction
    source: str | None
    target: str
    digest: str | None
    replaces: str | None = None
    reason: str = ""
    moves: Moves = Moves()


class PlanFailure(Report):
    """A tag, or a repository or registry whose tags cannot be listed, that could not be planned.

    Attributes:
        entry: Number of the `sync` entry in the job file, from 0.
        source: Reference; without a tag where it is the listing that failed.
        target: Reference.
        error: What went wrong.
    """

    entry: int
    source: str | None
    target: str
    error: Failure


class MirrorPlan(ItemReport):
    """Plan of a run.

    Attributes:
        version: Of this document: 1.
        job: Path of the job file as it was given.
        job_digest: sha256 of its bytes; a plan is executed only with the job it was made from.
        items: In the order of the job file.
        failures: What could not be planned.
        totals: Sum of all `moves`.
        counts: Number of items by action, and of `failures` as `failed`; all keys are always there.
    """

    schema_id: str = schema_named("mirror-plan")
    version: Literal[1] = 1
    job: str
    job_digest: str
    items: Items[PlannedItem]
    failures: list[PlanFailure] = Field(default_factory=list)
    totals: Moves
    counts: dict[str, int]


class MirrorItem(Report):
    """One tag, and what was done with it.

    Attributes:
        entry: Number of the `sync` entry in the job file, from 0.
        outcome: `copied`, `skipped`, `pruned`, `kept` (not pruned, for `reason`) or `failed`.
        source: Reference with the tag; None where something was to be pruned.
        target: Reference with the tag.
        digest: Digest of the manifest or index at the target; None where it is not known.
        source_digest: The same at the source, where another dialect makes it another one.
        replaced: Digest that the tag had at the target before.
        reason: Why, in a few words.
        moves: What moved.
        also: References of companions that were made on the way.
        warnings: What the user should know of it, with those of the hosts if the work is done by other processes.
        error: What went wrong.
        listing: Whether it is no tag, but a repository or registry whose tags could not be listed.
        started: When work on it began; None where it never did.
        seconds: How long it took.
    """

    entry: int
    outcome: Outcome
    source: str | None
    target: str
    digest: str | None = None
    source_digest: str | None = None
    replaced: str | None = None
    reason: str = ""
    moves: Moves = Moves()
    also: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    error: Failure | None = None
    listing: bool = False
    started: Time | None = None
    seconds: float = 0.0


class TagEvent(Event):
    """A tag is done, well or not."""

    event: Literal["tag"] = "tag"
    tag: MirrorItem


class MirrorReport(ItemReport):
    """Report of a run.

    Attributes:
        job: Path of the job file as it was given.
        job_digest: sha256 of its bytes.
        started: RFC 3339, UTC.
        seconds: How long it took.
        host: Name of the machine.
        executor: `threads`, `dask`, or the name of the executor's class.
        workers: Tags that were worked on at the same time.
        shard: `3/16`, or None.
        resumed: Tags that an earlier, interrupted run of this job had finished, and that were found to be in sync.
        interrupted: Whether the run was ended before it was done, by Ctrl-C or SIGTERM; the items are those finished.
        remaining: Tags that were not reached: the run was interrupted, or ended by its first failure; None where it was
            interrupted before all tags were known.
        items: In the order of the job file.
        totals: Sum of all `moves`.
        counts: Number of items by outcome; all keys are always there.
        warnings: What the user should know.
    """

    schema_id: str = schema_named("mirror-report")
    job: str
    job_digest: str
    started: str = Field(json_schema_extra={"format": "date-time"})
    seconds: float
    host: str = ""
    executor: str
    workers: int
    shard: str | None = None
    resumed: int = 0
    interrupted: bool = False
    remaining: int | None = 0
    items: Items[MirrorItem]
    totals: Moves
    counts: dict[str, int]
    warnings: list[str] = Field(default_factory=list)
