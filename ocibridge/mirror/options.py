# SPDX-License-Identifier: Apache-2.0
"""The options of mirror plans and runs; `ocibridge.options` says how they are used."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Options, count, option
from .shards import Shard


@dataclass(frozen=True, kw_only=True)
class ShardOptions(Options):
    """The shard of a job; None is all of it."""

    shard: Shard | None = option(
        None,
        help="only one part of the job, counted from 0; /COUNT takes the index from JOB_COMPLETION_INDEX",
        metavar="INDEX/COUNT",
        parse=Shard.parse,
    )


@dataclass(frozen=True, kw_only=True)
class MirrorOptions(ShardOptions):
    """Options for checking the targets of a job."""

    full: bool = option(False, help="ask the targets for every blob, whatever the journal says")


@dataclass(frozen=True, kw_only=True)
class RunOptions(MirrorOptions):
    """Options of a run; `executor` is the name of the executor in the report."""

    executor: str = option(
        "threads",
        help="where the work is done (default: threads of this process)",
        choices=("threads", "processes", "dask"),
    )
    workers: int | None = option(
        None,
        help="tags at the same time (default: 'parallel' of the job, else 16, and for processes one a processor)",
        metavar="N",
        parse=count,
    )
    abort_on_error: bool = option(False, help="end with the first failure")
