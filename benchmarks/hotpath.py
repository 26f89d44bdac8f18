# SPDX-License-Identifier: Apache-2.0
"""What the time of a large transfer goes to: samples of the threads, and a comparison with the floors."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from . import tools
from .cases import Model
from .measure import Run
from .place import Place
from .results import Sample

LINES = 8
"""Lines of a sample that are worth a look."""
LONGEST = 0.8
"""Share of the wall time from which on one step is called the bound."""
BUSY = 0.85
"""Share of all processors from which on they are called the bound."""


def samples(place: Place, model: Model) -> tuple[Sample, Sample, Sample]:
    """A push of the model, a pull to a folder and a pull to a carton, each watched once."""
    ready = f"{place.pulls.host}/{model.repository.removesuffix('-raw')}:v1"
    return (
        _sample(place, f"push, {model.label}", tools.ocibridge_push(model.source, f"{place.pushes.host}/bench/new:v1")),
        _sample(place, f"pull to a folder, {model.label}", tools.ocibridge_pull(ready, place.out / "model")),
        _sample(place, f"pull to .carton, {model.label}", tools.ocibridge_pull(ready, place.out / "model.carton")),
    )


def _sample(place: Place, title: str, command: tools.Command) -> Sample:
    place.clear()
    result = place.models / "sample.json"
    place.watched((sys.executable, "-m", "benchmarks.sampling", str(result), *command[1:]))
    return sample_of(title, result)


def sample_of(title: str, result: Path) -> Sample:
    """The sample that `benchmarks.sampling` has written."""
    found = json.loads(result.read_bytes())
    looks = max(1, found["looks"])
    ordered = sorted(found["lines"].items(), key=lambda item: (-item[1], item[0]))
    return Sample(title, tuple((count / looks, line) for line, count in ordered))


def bound(run: Run, stages: Mapping[str, float], cores: int) -> str:
    """What a transfer is bound by.

    Args:
        run: The transfer.
        stages: Its steps and their seconds when nothing else is done.
        cores: Processors of the machine.
    """
    name, longest = max(stages.items(), key=lambda item: item[1])
    share, busy = longest / run.wall, (run.cpu + run.server) / (run.wall * cores)
    processors = f"client and registry together keep {busy:.0%} of the {cores} processors busy"
    step = f"the longest step alone ({name}, {longest:.2f} s) is {share:.0%} of the {run.wall:.2f} s"
    if share >= LONGEST:
        return f"Bound by one step: {step}; {processors}."
    if busy >= BUSY:
        return f"Bound by the processors: {processors}; {step}."
    together = sum(stages.values())
    return (
        f"No single bound: {step}; {processors}; all steps one after the other would take {together:.2f} s, "
        f"{together / run.wall:.0%} of it."
    )
