# SPDX-License-Identifier: Apache-2.0
"""What must not be trusted too far: notes, deletions, and what an earlier run knew."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.errors import StoreError
from ocibridge.mirror import work
from ocibridge.mirror.executors import executor_of
from ocibridge.mirror.options import RunOptions
from ocibridge.mirror.plan import mirror_plan
from ocibridge.mirror.reports import MirrorReport
from ocibridge.mirror.run import mirror_run
from ocibridge.mirror.storepool import StorePool
from ocibridge.stores.layout import LayoutStore

from ..registry import RegistryServer
from .artifacts import drop_blob, job, put, put_index, store, tags
from .jobs import nonzero

CARTON = Path(__file__).parents[1] / "fixtures" / "digits.carton"


class Inline(Executor):
    """Works at once, as a worker of a cluster does that lives longer than a run."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*args))
        return done


class Broken(Executor):
    """As a pool whose processes were killed."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        raise BrokenProcessPool("a process was terminated")


class Sides:
    """A repository in two registries, and job files for them."""

    def __init__(self, path: Path, source: RegistryServer, target: RegistryServer, repository: str) -> None:
        self.path, self.source, self.target, self.repository = path, source.host, target.host, repository

    def job(self, *more: str, to: str | None = None) -> Path:
        head = [
            f"  - source: {self.source}/{self.repository}",
            f"    target: {to or f'{self.target}/{self.repository}'}",
            "    type: repository",
        ]
        return self.write("\n".join([*head, *(f"    {line}" for line in more)]))

    def write(self, entries: str) -> Path:
        return job(self.path / "job.yaml", f"version: 1\nsync:\n{entries}")

    @property
    def there(self) -> dict[str, str]:
        return tags(self.target, self.repository)


@pytest.fixture
def sides(tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str) -> Sides:
    return Sides(tmp_path, source, target, repository)


def outcomes(report: MirrorReport) -> dict[str, tuple[str, str]]:
    return {item.target.rpartition(":")[2]: (item.outcome, item.reason) for item in report.items}


# Deleting.


def test_a_plan_does_not_delete_what_it_has_just_copied(sides: Sides) -> None:
    data = [b"the same under a new name in " + sides.repository.encode()]
    put(sides.target, sides.repository, "old", data)
    put(sides.source, sides.repository, "new", data)
    path = sides.job("prune: {enabled: true, dryRun: false, maxShare: 1}")
    report = mirror_run(path, plan=mirror_plan(path))
    assert outcomes(report)["old"] == ("kept", "the tag new has the same manifest")
    assert sides.there == {"old": tags(sides.source, sides.repository)["new"], **tags(sides.source, sides.repository)}


def test_backups_of_another_entry_stay(sides: Sides) -> None:
    put(sides.source, sides.repository, "v1", [b"1"])
    put(sides.source, f"{sides.repository}/more", "v2", [b"2"])
    put(sides.target, sides.repository, "v2", [b"before"])
    path = sides.write(
        f"""\
  - source: {sides.source}/{sides.repository}
    target: {sides.target}/{sides.repository}
    type: repository
    prune: {{enabled: true, dryRun: false, maxShare: 1}}
  - source: {sides.source}/{sides.repository}/more
    target: {sides.target}/{sides.repository}
    type: repository
    backup: 'old-{{tag}}'"""
    )
    assert "old-v2" not in outcomes(mirror_run(path))
    assert set(sides.there) == {"v1", "v2", "old-v2"}


def test_a_registry_that_cannot_be_listed_is_a_failure_and_nothing_below_its_target_is_deleted(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> list[str]:
        raise StoreError("the registry lists nothing")

    monkeypatch.setattr(StorePool, "repositories", away)
    put(sides.source, sides.repository, "v1", [b"1"])
    put(sides.target, sides.repository, "from-the-other", [b"2"])
    path = sides.write(
        f"""\
  - source: {sides.source}
    target: {sides.target}
    type: registry
  - source: {sides.source}/{sides.repository}
    target: {sides.target}/{sides.repository}
    type: repository
    prune: {{enabled: true, dryRun: false, maxShare: 1}}"""
    )
    kept = ("kept", "not everything of this repository could be brought in sync")
    planned = {item.target.rpartition(":")[2]: item.action for item in mirror_plan(path).items}
    assert planned == {"v1": "copy", "from-the-other": "keep"}
    report = mirror_run(path)
    assert nonzero(report.counts) == {"failed": 1, "copied": 1, "kept": 1}
    assert outcomes(report)["from-the-other"] == kept
    assert set(sides.there) == {"v1", "from-the-other"}


# What earlier runs have noted.


def test_platforms_that_are_added_to_a_job_are_copied(sides: Sides) -> None:
    children = [put(sides.source, sides.repository, None, [b"for %d" % number]) for number in range(2)]
    put_index(sides.source, sides.repository, "v1", children)
    layout, journal = sides.path / "layout", sides.path / "journal"
    mirror_run(sides.job("platforms: [linux/amd64]", to=f"oci:{layout}"), journal=journal)
    with LayoutStore(layout) as there:
        assert [there.head(child.digest) is not None for child in children] == [True, False]
    path = sides.job(to=f"oci:{layout}")
    assert nonzero(mirror_plan(path, journal=journal).counts) == {"copy": 1}
    assert nonzero(mirror_run(path, journal=journal).counts) == {"copied": 1}
    with LayoutStore(layout) as there:
        assert [there.head(child.digest) is not None for child in children] == [True, True]
    assert nonzero(mirror_run(path, journal=journal).counts) == {"skipped": 1}


def test_companions_that_are_added_to_a_job_are_made(sides: Sides) -> None:
    ocibridge.push(CARTON, f"{sides.source}/{sides.repository}:v1")
    journal = sides.path / "journal"
    mirror_run(sides.job("fastCheck: true"), journal=journal)
    mirror_run(sides.job("fastCheck: true", "also: [image]"), journal=journal)
    assert set(sides.there) == {"v1", "v1-image"}


def test_a_dialect_is_in_step_with_and_without_a_journal(sides: Sides) -> None:
    ocibridge.push(CARTON, f"{sides.source}/{sides.repository}:v1", ocibridge.PushOptions(also=["image"]))
    path, journal = sides.job("dialect: modelpack"), sides.path / "journal"
    assert outcomes(mirror_run(path, journal=journal)) == {"v1": ("copied", "new")}
    for notes in (journal, journal, None):
        report = mirror_run(path, journal=notes)
        assert outcomes(report) == {"v1": ("skipped", "in sync")}
        assert (report.items[0].digest, report.items[0].replaced) == (sides.there["v1"], None)
    first = sides.there["v1"]
    assert outcomes(mirror_run(sides.job("dialect: draft"), journal=journal)) == {"v1": ("copied", "changed")}
    assert sides.there["v1"] not in (first, tags(sides.source, sides.repository)["v1"])


def test_what_another_dialect_replaces_is_kept(sides: Sides) -> None:
    ocibridge.push(CARTON, f"{sides.source}/{sides.repository}:v1")
    old = put(sides.target, sides.repository, "v1", [b"before"])
    path = sides.job("dialect: modelpack", "backup: 'old-{tag}'")
    for _ in range(2):
        mirror_run(path)
        assert sides.there["old-v1"] == old.digest
    assert set(sides.there) == {"v1", "old-v1"}


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_what_the_source_lacks_is_said(sides: Sides, kind: str) -> None:
    children = [put(sides.source, sides.repository, None, [b"child %d" % number]) for number in range(2)]
    index = put_index(sides.source, sides.repository, "v1", children)
    with store(sides.source, sides.repository) as there:
        there.delete(children[1].digest)
    with executor_of(kind, 1) as pool:
        report = mirror_run(sides.job(to=f"oci:{sides.path / 'layout'}"), executor=pool)
    assert nonzero(report.counts) == {"copied": 1}
    assert [text for text in report.warnings if children[1].digest in text and index.digest in text]
    assert report.items[0].warnings == report.warnings


def test_what_is_said_of_a_tag_that_fails_is_said(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    children = [put(sides.source, sides.repository, None, [b"child %d" % number]) for number in range(2)]
    put_index(sides.source, sides.repository, "v1", children)
    with store(sides.source, sides.repository) as there:
        there.delete(children[1].digest)

    def fail(*_: object) -> None:
        raise StoreError("the companion cannot be made")

    monkeypatch.setattr(work, "publish_companions", fail)
    report = mirror_run(sides.job(to=f"oci:{sides.path / 'layout'}"))
    assert nonzero(report.counts) == {"failed": 1}
    assert [text for text in report.warnings if children[1].digest in text]


# One among many.


def test_a_tag_that_fails_does_not_take_the_connections_of_the_others(sides: Sides) -> None:
    # The other blob of the tag that fails waits for its share of the bandwidth, longer than it has time to end.
    put(sides.source, sides.repository, "v1", [b"a" * (1 << 20), b"lost in " + sides.repository.encode()])
    put(sides.source, sides.repository, "v2", [b"2"])
    with store(sides.source, sides.repository) as there:
        lost = json.loads(there.fetch_manifest("v1")[1])["layers"][1]["digest"]
    drop_blob(sides.source, sides.repository, lost)
    path = sides.job()
    path.write_text("defaults: {bandwidth: 70KiB}\n" + path.read_text())
    report = mirror_run(path, options=RunOptions(workers=1))
    assert [(item.outcome, item.error and item.error.type) for item in report.items] == [
        ("failed", "NotFound"),
        ("copied", None),
    ]


def test_entries_that_are_not_due_are_left_alone(sides: Sides) -> None:
    put(sides.source, sides.repository, "v1", [b"1"])
    path = sides.write(
        f"""\
  - {{source: {sides.source}/{sides.repository}, target: {sides.target}/{sides.repository}, type: repository}}
  - {{source: {sides.source}/{sides.repository}/nothing, target: {sides.target}/nothing, type: repository}}"""
    )
    assert nonzero(mirror_run(path, entries={0}).counts) == {"copied": 1}
    assert nonzero(mirror_run(path, entries={1}).counts) == {"failed": 1}


# Other processes.


def test_a_worker_that_lives_longer_than_a_run_looks_again(sides: Sides) -> None:
    subject = put(sides.source, sides.repository, "v1", [b"1"])
    path = sides.job()
    assert nonzero(mirror_run(path, executor=Inline()).counts) == {"copied": 1}
    signature = put(sides.source, sides.repository, None, [b"signed"], subject=subject, artifact_type="text/signature")
    mirror_run(path, executor=Inline())
    with store(sides.target, sides.repository) as there:
        assert [each.digest for each in there.referrers(subject.digest)] == [signature.digest]


def test_an_executor_whose_workers_have_died_is_a_failure_of_each_tag(sides: Sides) -> None:
    for number in range(3):
        put(sides.source, sides.repository, f"v{number}", [b"%d" % number])
    report = mirror_run(sides.job(), executor=Broken())
    assert nonzero(report.counts) == {"failed": 3}
    assert report.items[0].error is not None
    assert report.items[0].error.type == "BrokenProcessPool"
