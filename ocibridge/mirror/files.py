# SPDX-License-Identifier: Apache-2.0
"""The files around a run: plans that are read again, reports, and where its journal is."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from pydantic import ValidationError

from .. import settings
from ..errors import FormatError, UsageError, reading
from ..oci.document import first_problem
from ..oci.reference import web_address
from .jobs.job import Job
from .jobs.yamlfile import MAX_BYTES
from .reports import MirrorPlan
from .shards import Shard

_LARGEST_PLAN = 256 * settings.MiB


STDIN = Path("standard input")
"""What a job is called that was read from there."""


def read_job(path: str) -> Job:
    """Read a job from a file, or from standard input where `path` is `-`; see `Job.load`."""
    if elsewhere := web_address(path):
        raise UsageError(f"{elsewhere[0]} is a web address", hint="fetch it, and name the file, or pipe it in as -")
    if path != "-":
        return Job.load(path)
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None else b""
    return Job.parse(data, STDIN)


def journal_path(job: str | os.PathLike[str], shard: Shard | None = None) -> Path | None:
    """Return the path of the journal of a job for this user; None without a home folder.

    Args:
        job: Path of the job file; of a job from standard input its digest.
        shard: The part of the job that is run.
    """
    home = settings.cache_dir()
    if home is None:
        return None
    name = hashlib.sha256(str(Path(job).absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    part = "" if shard is None else f"-{shard.index}-{shard.count}"
    return home / "mirror" / f"{name}{part}.jsonl"


def read_plan(path: Path) -> MirrorPlan:
    """A plan that `mirror plan --output` wrote.

    Raises:
        SourceError: it cannot be read.
        FormatError: it is no plan.
    """
    with reading(path):
        data = path.read_bytes() if path.stat().st_size <= _LARGEST_PLAN else b""
    try:
        return MirrorPlan.model_validate_json(data)
    except ValidationError as exc:
        raise FormatError(
            f"{path} is no plan of a mirror job: {first_problem(exc)}", hint="make one with 'ocibridge mirror plan -o'"
        ) from None
