# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks`: ocibridge beside curl, skopeo and the stock oras package, and the page about it.

Tools that are not installed are left out and named. The registries are the real one, on this machine, as processes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ocibridge.settings import MiB

from . import cases, hotpath, machine
from .floors import file_floors, weight_floors
from .measure import Row
from .page import page
from .place import Place, note
from .results import Results
from .server import serve

SHARDS = 8


@dataclass(frozen=True)
class Amount:
    """How much is measured, and how often.

    Attributes:
        size: Bytes of the weights of a model.
        files: Small files.
        rounds: Runs of each transfer of large weights.
        short_rounds: Runs of everything else; of start-up three times as many.
    """

    size: int
    files: int
    rounds: int
    short_rounds: int


WARM_UP = Amount(16 * MiB, 200, 1, 1)
"""Enough to have every program and library in memory."""
SMOKE = Amount(8 * MiB, 200, 1, 1)


def measure(place: Place, amount: Amount) -> Results:
    """Every row, floor and sample; models are made one after the other, so that all fit into the page cache."""
    rows: list[Row] = []
    one = cases.weights(place, "one", f"a weight of {_size(amount.size)}", [amount.size])
    tiny = cases.weights(place, "tiny", "a weight of 1 MiB", [MiB])
    rows += place.rounds(cases.push_weights(place, one), amount.rounds)
    rows += place.rounds(cases.pull_weights(place, one), amount.rounds)
    rows += place.rounds(cases.push_again(place, [one, tiny]), amount.short_rounds)
    weight = weight_floors(place, one.blobs[0], one.repository, amount.rounds)
    push, pull, pull_carton = hotpath.samples(place, one)
    carton = one.source.stat().st_size
    place.forget()

    shard = amount.size // SHARDS
    eight = cases.weights(place, "eight", f"{SHARDS} weights of {_size(shard)}", [shard] * SHARDS)
    rows += place.rounds(cases.push_weights(place, eight), amount.rounds)
    rows += place.rounds(cases.pull_weights(place, eight), amount.rounds)
    place.forget()

    many = cases.files(place, "many", f"{amount.files:,} small files", amount.files)
    rows += place.rounds(cases.push_files(place, many), amount.short_rounds)
    rows += place.rounds(cases.pull_files(place, many), amount.short_rounds)
    small = file_floors(place, many.source, amount.short_rounds)
    place.forget()

    rows += place.rounds(cases.start_up(place), 3 * amount.short_rounds)
    place.forget()
    return Results(one, amount.size, carton, eight, many, tiny, rows, weight, small, push, pull, pull_carton)


def _size(count: int) -> str:
    return f"{count // (1024 * MiB)} GiB" if count % (1024 * MiB) == 0 else f"{count // MiB} MiB"


def main() -> None:
    """Run, print the page, and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", type=int, default=2048, help="MiB of the weights of a model (default 2048)")
    parser.add_argument("--files", type=int, default=10_000, help="small files (default 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each large transfer (default 3)")
    parser.add_argument("--short-rounds", type=int, default=5, help="runs of everything else (default 5)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="keep the page in this file")
    parser.add_argument("--smoke", action="store_true", help="tiny, once: proves that everything runs")
    options = parser.parse_args()
    amount = Amount(options.size * MiB, options.files, options.rounds, options.short_rounds)
    if options.smoke:
        amount = SMOKE
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ocibridge-bench-") as name:
        work = Path(name, "work")
        work.mkdir()
        with serve(Path(name, "pushes")) as pushes, serve(Path(name, "pulls")) as pulls:
            place = Place(work, pushes, pulls, settle=not options.smoke)
            if not options.smoke:
                note("warming up")
                measure(place, WARM_UP)
                note("measuring")
            found = measure(place, amount)
            there = machine.description(work, pulls)
        text = page(found, there, machine.cores(), _how(amount, options.smoke), place.missing)
        (options.write or Path(name, "benchmarks.md")).write_text(text, encoding="utf-8")
    print(text)
    note(f"{time.monotonic() - started:.0f} s")


def _how(amount: Amount, smoke: bool) -> str:
    if smoke:
        return "A smoke test with tiny models, each command once: these figures say nothing about speed."
    return (
        f"First everything ran once with {_size(WARM_UP.size)}, which does not count; then {amount.rounds} rounds of\n"
        f"the large transfers, {amount.short_rounds} of the others, {3 * amount.short_rounds} of start-up."
    )


if __name__ == "__main__":
    main()
