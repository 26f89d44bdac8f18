# SPDX-License-Identifier: Apache-2.0
"""Job files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ocibridge.mirror.jobs.entry import SyncEntry
from ocibridge.mirror.jobs.job import Job
from ocibridge.mirror.jobs.yamlfile import YamlError

SYNC = """\
sync:
  - source: reg.example/models
    target: mirror.example/models
    type: repository
"""
"""The least that is a job, but for the rest of its entry."""


def load(folder: Path, text: str) -> Job:
    """Read a job file."""
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return Job.load(path)


def entry(folder: Path, rest: str = "", text: str = SYNC) -> SyncEntry:
    """The first entry of a job, to which lines are added."""
    return load(folder, text + "".join(f"    {line}\n" for line in rest.splitlines())).entries[0]


def problems(folder: Path, text: str) -> list[str]:
    """What is wrong with a job file, without the path of its folder."""
    with pytest.raises(YamlError) as caught:
        load(folder, text)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return [line.removeprefix(f"{folder}/") for line in caught.value.problems]


def problem(folder: Path, text: str) -> str:
    """The one thing that is wrong with a job file."""
    found = problems(folder, text)
    assert len(found) == 1, found
    return found[0]


def nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts of a plan or report without those of nothing."""
    return {key: count for key, count in counts.items() if count}
