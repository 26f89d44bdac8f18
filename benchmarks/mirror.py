# SPDX-License-Identifier: Apache-2.0
"""Mirror jobs compared with regsync, skopeo and curl: what is measured, and in which order."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Collection, Sequence

from ocibridge.settings import MiB

from . import floors, tools
from .floors import Floor
from .inputs import make_carton
from .measure import summary
from .mirror_cluster import Processes, dask, far_away
from .mirror_inputs import heads, largest_blob, make_artifacts, pinned_job, regsync_job, tags_of, whole_job
from .mirror_requests import AccessLog, Traffic, traffic
from .mirror_results import CURL, OURS, PINNED, REGSYNC, ROUND_TRIP, SKOPEO, Amount, Measured, Mirrored, Names, Taken
from .place import Case, Place

SMALL, LARGE, COPY = "bench/small", "bench/large", "bench/copy"


class _Both:
    """The two registries as one."""

    def __init__(self, place: Place) -> None:
        self._servers = place.pulls, place.pushes

    def cpu(self) -> float:
        return sum(server.cpu() for server in self._servers)


class Mirror:
    """The measurements. The source is `place.pulls`, the target `place.pushes`; both log their requests.

    Args:
        place: Where the benchmark works.
        amount: How much of everything.
    """

    def __init__(self, place: Place, amount: Amount) -> None:
        self._place = place
        self._amount = amount
        self._names = Names(amount)
        self._both = _Both(place)
        self._logs = AccessLog(place.pulls), AccessLog(place.pushes)
        self._taken: dict[tuple[str, str], list[Taken]] = {}

    def measure(self) -> Mirrored:
        """All of it."""
        pushing, asking = self._small()
        hashing = self._large()
        if self._amount.far_rounds:
            self._far()
        return Mirrored(self._amount, [self._measured(*key) for key in self._taken], hashing, pushing, asking)

    # One repository with many small artifacts.

    def _small(self) -> tuple[float, Floor]:
        """Measure them, and what their push, and the HEAD of each of them, takes at least."""
        place, names = self._place, self._names
        started = time.perf_counter()
        digests = make_artifacts(place.pulls.host, SMALL, self._amount.artifacts)
        pushing = time.perf_counter() - started
        source, target = f"{place.pulls.host}/{SMALL}", f"{place.pushes.host}/{SMALL}"
        # In a folder that is emptied before each turn.
        notes = ("--journal", str(place.out / "journal"))
        ours = tools.ocibridge_mirror(whole_job(place.models / "whole.yaml", source, target), *notes)
        pinned = tools.ocibridge_mirror(pinned_job(place.models / "pinned.yaml", source, target, digests), *notes)
        only = dict([next(iter(digests.items()))])
        one = tools.ocibridge_mirror(pinned_job(place.models / "one.yaml", source, target, only), *notes)
        skopeo = tools.skopeo_sync(source, target.rpartition("/")[0])
        regsync = tools.regsync(regsync_job(place.models / "regsync.yaml", source, target))
        turns = [
            [self._case(names.cold, SKOPEO, skopeo), self._case(names.again, SKOPEO, skopeo)],
            [self._case(names.cold, REGSYNC, regsync), self._case(names.again, REGSYNC, regsync)],
            [
                self._case(names.cold, OURS, ours),
                self._case(names.again, OURS, ours),
                self._case(names.again, PINNED, pinned),
                self._case(names.one, OURS, one),
            ],
        ]
        self._turns(turns, self._amount.rounds, digests)
        asking = floors.median([self._heads(digests) for _ in range(self._amount.rounds)])
        place.forget()
        return pushing, asking

    def _heads(self, tags: Collection[str]) -> Floor:
        started, processor, server = time.perf_counter(), time.process_time(), self._both.cpu()
        for each in (self._place.pulls, self._place.pushes):
            heads(each.host, SMALL, tags)
        wall = time.perf_counter() - started
        return Floor(wall, time.process_time() - processor, self._both.cpu() - server)

    # One large weight.

    def _large(self) -> float:
        """Measure it, and give the seconds that its sha256 takes."""
        place, amount, names = self._place, self._amount, self._names
        source, target = place.pulls.host, place.pushes.host
        carton = place.models / "large.carton"
        make_carton(carton, [amount.size])
        place.prepare(tools.ocibridge_push(carton, f"{source}/{LARGE}:v1", "--layers", "raw-files"))
        carton.unlink()
        curl = tools.curl_copy(source, target, LARGE, largest_blob(source, LARGE, "v1"))
        copy = tools.ocibridge_copy(f"{source}/{LARGE}:v1", f"{target}/{LARGE}:v1")
        again = tools.ocibridge_copy(f"{target}/{LARGE}:v1", f"{target}/{COPY}:v1")
        turns = [
            [self._case(names.large, CURL, curl)],
            [self._case(names.large, OURS, copy), self._case(names.same, OURS, again)],
        ]
        self._turns(turns, amount.large_rounds)
        hashing = statistics.median(_hashing(amount.size) for _ in range(amount.large_rounds))
        place.forget()
        return hashing

    # A cluster, and registries far away.

    def _far(self) -> None:
        place, amount = self._place, self._amount
        make_artifacts(place.pulls.host, SMALL, amount.far)
        with far_away((place.pulls.host, place.pushes.host), ROUND_TRIP) as proxy:
            source, target = (f"{host}/{SMALL}" for host in proxy.where)
            command = tools.ocibridge_mirror(whole_job(place.models / "far.yaml", source, target), "--no-journal")
            for number in range(amount.far_rounds):
                for workers in (1, amount.workers) if number % 2 == 0 else (amount.workers, 1):
                    self._cluster(workers, command, proxy)
        place.forget()

    def _cluster(self, workers: int, command: tools.Command, proxy: Processes) -> None:
        """A run by a new cluster: the workers of an old one remember what they have brought."""
        place, names = self._place, self._names
        place.clear()
        folder = place.out / "dask"
        folder.mkdir()
        with dask(workers, folder, place.env()) as cluster:
            (scheduler,) = cluster.where
            how = ("--executor", "dask", "--scheduler", scheduler, "--workers", str(workers))
            self._take(self._case(names.far, names.workers(workers), (*command, *how)), (proxy, cluster))
        self._check(self._amount.far)

    # Runs.

    def _case(self, measure: str, tool: str, command: tools.Command) -> Case:
        return Case(measure, tool, command, self._both)

    def _turns(self, turns: Sequence[Sequence[Case]], count: int, tags: Collection[str] = ()) -> None:
        """Run cases that follow each other, `count` times; each turn begins with nothing, each round with another turn.

        Turns whose program is not installed are left out.

        Args:
            turns: Cases; each finds what those before it have left.
            count: Rounds.
            tags: What the target has to have in the end.
        """
        there = [turn for turn in turns if self._place.installed(turn[0])]
        for number in range(count):
            first = number % len(there)
            for turn in (*there[first:], *there[:first]):
                self._place.clear()
                for case in turn:
                    self._take(case)
                if tags:
                    self._check(len(tags))

    def _take(self, case: Case, others: Sequence[Processes] = ()) -> None:
        """Run a case once in what is there."""
        self._place.fsync_all()
        for log in self._logs:
            log.read()
        used = sum(each.cpu() for each in others)
        run = self._place.again(case)
        used = sum(each.cpu() for each in others) - used
        source, target = (traffic(log.read()) for log in self._logs)
        self._taken.setdefault((case.measure, case.tool), []).append(Taken(run, source, target, used))

    def _check(self, count: int) -> None:
        """A tool that leaves something out would be fast."""
        there = len(tags_of(self._place.pushes.host, SMALL))
        if there != count:
            raise SystemExit(f"the target has {there} tags of {count}")

    def _measured(self, measure: str, tool: str) -> Measured:
        taken = self._taken[measure, tool]
        return Measured(
            summary(measure, tool, [each.run for each in taken]),
            self._names.tags(measure),
            _most([each.source for each in taken]),
            _most([each.target for each in taken]),
            statistics.median(each.others for each in taken),
        )


def _most(found: Sequence[Traffic]) -> Traffic:
    return max(found, key=lambda each: (each.moved, each.requests))


def _hashing(size: int) -> float:
    """Seconds of sha256 over so many bytes."""
    digest, block = hashlib.sha256(), bytes(MiB)
    started = time.perf_counter()
    for _ in range(size // MiB):
        digest.update(block)
    return time.perf_counter() - started
