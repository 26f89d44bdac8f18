# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks`: ocibridge compared with curl, skopeo, ORAS and regsync, and the page about it.

Tools that are not installed are left out and named. The registries are the real one, on this machine, as processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ocibridge.settings import MiB
from tests.registry import TLS

from . import cases, clients_page, files, hotpath, machine, tls, tools
from .floors import file_floors, weight_floors
from .measure import Row
from .mirror import Mirror
from .mirror_page import mirror_page
from .mirror_results import Amount as MirrorAmount
from .mirror_results import size_of
from .page import PARTS, assembled, parts_of, transfers
from .place import Place, note
from .results import Results
from .server import serve
from .tls_page import tls_page


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
SMOKED = "A smoke test with tiny models, each command once: these figures say nothing about speed."
TLS_WARM_UP = tls.Amount(16 * MiB, 1, 1)
TLS_SMOKE = tls.Amount(8 * MiB, 1, 1)
REQUESTS_SMOKE = clients_page.Amount(20, 1)
MIRROR_WARM_UP = MirrorAmount(20, 1, 16 * MiB, 1, 0, 0, 0)
MIRROR_SMOKE = MirrorAmount(20, 1, 8 * MiB, 1, 4, 2, 1)


def measure(place: Place, amount: Amount) -> Results:
    """Every row, floor and sample; models are made one after the other, so that all fit into the page cache."""
    rows: list[Row] = []
    one = cases.weights(place, "one", f"a weight of {size_of(amount.size)}", [amount.size])
    tiny = cases.weights(place, "tiny", "a weight of 1 MiB", [MiB])
    rows += place.rounds(cases.push_weights(place, one), amount.rounds)
    rows += place.rounds(cases.pull_weights(place, one), amount.rounds)
    rows += place.rounds(cases.push_again(place, [one, tiny]), amount.short_rounds)
    weight = weight_floors(place, one.blobs[0], one.repository, amount.rounds)
    push, pull, pull_carton = hotpath.samples(place, one)
    carton = one.source.stat().st_size
    place.forget()

    shard = amount.size // cases.SHARDS
    eight = cases.weights(place, "eight", f"{cases.SHARDS} weights of {size_of(shard)}", [shard] * cases.SHARDS)
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


def main() -> None:
    """Run, print the page, and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part of the page; --write keeps the others as they are")
    parser.add_argument("--size", type=int, default=2048, help="MiB of the weights of a model (default 2048)")
    parser.add_argument("--files", type=int, default=10_000, help="small files (default 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each large transfer (default 3)")
    parser.add_argument("--short-rounds", type=int, default=5, help="runs of the other transfers (default 5)")
    parser.add_argument("--tls-rounds", type=int, default=3, help="runs of each pull over TLS (default 3)")
    parser.add_argument("--requests", type=int, default=3000, help="small requests of each client (default 3000)")
    parser.add_argument("--artifacts", type=int, default=500, help="small artifacts that are mirrored (default 500)")
    parser.add_argument("--far", type=int, default=240, help="small artifacts for the Dask cluster (default 240)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="keep the page in this file")
    parser.add_argument("--smoke", action="store_true", help="tiny, once: proves that everything runs")
    options = parser.parse_args()
    parts = _kept(parser, options.write) if options.only and options.write else {}
    measures = _measures(options)
    started = time.monotonic()
    for name in [options.only] if options.only else PARTS:
        begun = time.monotonic()
        parts[name] = measures[name]()
        note(f"{name}: {time.monotonic() - begun:.0f} s")
        text = assembled(parts)
        if options.write:
            options.write.write_text(text, encoding="utf-8")
    print(text)
    note(f"{time.monotonic() - started:.0f} s")


def _measures(options: argparse.Namespace) -> dict[str, Callable[[], str]]:
    """What measures each part of the page, and writes it."""
    amount = Amount(options.size * MiB, options.files, options.rounds, options.short_rounds)
    # The pushes have no bar but that of memory, and take most of the time.
    encrypted = tls.Amount(options.size * MiB, 1, options.tls_rounds)
    requests = clients_page.Amount(options.requests, 3)
    # Medians of three rounds, and of two for what takes long.
    mirror = MirrorAmount(options.artifacts, 3, options.size * MiB, 2, options.far, 4, 2)
    if options.smoke:
        amount, encrypted, requests, mirror = SMOKE, TLS_SMOKE, REQUESTS_SMOKE, MIRROR_SMOKE
    return {
        "transfers": lambda: _transfers(amount, options.smoke),
        "files": lambda: _files(SMOKE.files if options.smoke else files.FILES, options.smoke),
        "tls": lambda: _tls(encrypted, options.smoke),
        "requests": lambda: _requests(requests, options.smoke),
        "mirror": lambda: _mirror(mirror, options.smoke),
    }


def _kept(parser: argparse.ArgumentParser, path: Path) -> dict[str, str]:
    """The parts of a page that is there."""
    if not path.exists():
        return {}
    found = parts_of(path.read_text(encoding="utf-8"))
    if not found:
        parser.error(f"{path} has no parts that could be kept: measure all of them, without --only")
    return found


def _transfers(amount: Amount, smoke: bool) -> str:
    """Measure pushing and pulling, and write about it."""
    begun = _now()

    def work(place: Place) -> str:
        if not smoke:
            note("warming up")
            measure(place, WARM_UP)
            note("measuring")
        found = measure(place, amount)
        how = (
            f"{begun}.\nFirst everything ran once with {size_of(WARM_UP.size)}, which does not count; then\n"
            f"{amount.rounds} rounds of the large transfers, {amount.short_rounds} of the others, "
            f"{3 * amount.short_rounds} of start-up."
        )
        there = machine.description(place.models, place.pulls)
        return transfers(found, there, machine.cores(), SMOKED if smoke else how, place.missing)

    return _with_place(work, smoke)


def _files(count: int, smoke: bool) -> str:
    """Measure every command on very many small files, and write about it."""
    begun = _now()

    def work(place: Place) -> str:
        rows = files.measure(place, count)
        there = machine.description(place.models, place.pulls)
        return files.files_page(rows, count, there, SMOKED if smoke else f"{begun}.")

    return _with_place(work, smoke)


def _tls(amount: tls.Amount, smoke: bool) -> str:
    """Measure pushing and pulling over TLS, and write about it."""
    begun = _now()

    def work(place: Place) -> str:
        if not smoke:
            note("warming up")
            tls.measure(place, TLS_WARM_UP)
            note("measuring")
        found = tls.measure(place, amount)
        how = (
            f"{begun}.\nFirst everything ran once with {size_of(TLS_WARM_UP.size)}, which does not count; then\n"
            f"rounds of the pushes: {amount.pushes}, of the pulls: {amount.pulls}."
        )
        there = machine.description(place.models, place.pulls)
        return tls_page(found, there, machine.cores(), SMOKED if smoke else how, place.missing)

    return _with_place(work, smoke, encrypted=True)


def _requests(amount: clients_page.Amount, smoke: bool) -> str:
    """Measure small requests, and write about them."""
    begun = _now()

    def work(place: Place) -> str:
        found = clients_page.measure(place, amount)
        how = (
            f"{begun}.\nFirst each client sent {amount.count // 10} requests, which do not count; then "
            f"{amount.count} in each of {amount.rounds} rounds.\nThe figures are medians of the rounds."
        )
        return clients_page.clients_page(
            found, machine.description(place.models, place.pulls), SMOKED if smoke else how
        )

    return _with_place(work, smoke)


def _mirror(amount: MirrorAmount, smoke: bool) -> str:
    """Measure mirror jobs, and write about them."""
    begun = _now()

    def work(place: Place) -> str:
        if not smoke:
            note("warming up")
            Mirror(place, MIRROR_WARM_UP).measure()
            note("measuring")
        found = Mirror(place, amount).measure()
        how = (
            f"{begun}.\nFirst everything but the cluster ran once with {MIRROR_WARM_UP.artifacts} artifacts and "
            f"{size_of(MIRROR_WARM_UP.size)}, which does\nnot count; then {amount.rounds} rounds of the small "
            f"artifacts, {amount.large_rounds} of the large weight, {amount.far_rounds} of the cluster."
        )
        there = machine.description(place.models, place.pulls)
        return mirror_page(found, there, machine.cores(), SMOKED if smoke else how, place.missing)

    return _with_place(work, smoke, access_log=True)


def _with_place(work: Callable[[Place], str], smoke: bool, *, encrypted: bool = False, access_log: bool = False) -> str:
    """Do something with two registries of its own.

    Args:
        work: What to do.
        smoke: Whether it is only to be seen that it can be done.
        encrypted: Whether the registries speak HTTPS.
        access_log: Whether they log every request.
    """
    with tempfile.TemporaryDirectory(prefix="ocibridge-bench-") as name:
        folder, trust = Path(name, "work"), Path(name, "trust")
        for each in (folder, trust):
            each.mkdir()
        shutil.copyfile(TLS / "ca.pem", trust / tools.AUTHORITIES)
        with (
            serve(Path(name, "pushes"), tls=encrypted, access_log=access_log) as pushes,
            serve(Path(name, "pulls"), tls=encrypted, access_log=access_log) as pulls,
        ):
            return work(Place(folder, pushes, pulls, fsync_all=not smoke, trust=trust if encrypted else None))


def _now() -> str:
    """When it began, and how busy the machine was then."""
    return (
        f"Measured on {time.strftime('%Y-%m-%d, %H:%M UTC', time.gmtime())}, when the load was {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
