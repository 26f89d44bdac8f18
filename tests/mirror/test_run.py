# SPDX-License-Identifier: Apache-2.0
"""Jobs between two real registries."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ocibridge.errors import UsageError
from ocibridge.mirror.options import RunOptions
from ocibridge.mirror.plan import mirror_plan
from ocibridge.mirror.reports import MirrorPlan, MirrorReport
from ocibridge.mirror.run import mirror_run
from ocibridge.mirror.shards import Shard

from ..registry import RegistryServer
from .artifacts import drop_blob, job, put, put_index, requests, tags, whole
from .jobs import nonzero


def outcomes(report: MirrorReport) -> dict[str, str]:
    """Outcome by target tag."""
    return {item.target.rpartition(":")[2]: item.outcome for item in report.items}


def actions(plan: MirrorPlan) -> dict[str, str]:
    return {item.target.rpartition(":")[2]: item.action for item in plan.items}


@pytest.fixture
def simple(tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str) -> Path:
    """A job for one repository, which goes to a repository of the same name."""
    return job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - source: {source.host}/{repository}
            target: {target.host}/{repository}
            type: repository
        """,
    )


def test_a_repository_comes_into_step(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    for number in range(3):
        put(source.host, repository, f"v{number}", [b"shared", b"own %d" % number])
    plan = mirror_plan(simple)
    assert actions(plan) == {"v0": "copy", "v1": "copy", "v2": "copy"}
    assert tags(target.host, repository) == {}
    report = mirror_run(simple)
    assert outcomes(report) == {"v0": "copied", "v1": "copied", "v2": "copied"}
    assert tags(target.host, repository) == tags(source.host, repository)
    for number in range(3):
        assert whole(target.host, repository, f"v{number}") == whole(source.host, repository, f"v{number}")
    # Config and first layer are the same blob in all three.
    assert (report.totals.copied, plan.totals.copied) == (5, 5)
    assert report.totals.copied_bytes == plan.totals.copied_bytes
    again = mirror_run(simple)
    assert set(outcomes(again).values()) == {"skipped"}
    assert again.totals.copied == again.totals.manifests == 0


def test_each_blob_is_fetched_once_however_many_tags_share_it(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    for number in range(8):
        put(source.host, repository, f"v{number}", [b"everybody has this " + repository.encode(), b"%d" % number])
    before = len(requests(source.log()))
    mirror_run(simple, options=RunOptions(workers=8))
    fetched = [path for method, path, _ in requests(source.log())[before:] if method == "GET" and "/blobs/" in path]
    assert len(fetched) == len(set(fetched)) == 10


def test_what_is_in_step_costs_a_request_a_tag_and_side(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    for number in range(10):
        put(source.host, repository, f"v{number}", [b"%d" % number])
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - source: {source.host}/{repository}
            target: {target.host}/{repository}
            type: repository
            fastCheck: true
        """,
    )
    journal = tmp_path / "journal"
    mirror_run(path, journal=journal)
    heads = (len(requests(source.log())), len(requests(target.log())))
    report = mirror_run(path, journal=journal)
    assert set(outcomes(report).values()) == {"skipped"}
    asked = requests(source.log())[heads[0] :]
    assert [method for method, path, _ in asked if "/manifests/" in path] == ["HEAD"] * 10
    assert len(asked) == 11  # and the list of tags
    assert [method for method, _, _ in requests(target.log())[heads[1] :]] == ["HEAD"] * 10


def test_a_repository_that_was_empty_is_not_asked_for_each_tag(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    for number in range(5):
        put(source.host, repository, f"v{number}", [b"%d" % number])
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        defaults:
          parallel: 1
        sync:
          - source: {source.host}/{repository}
            target: {target.host}/{repository}
            type: repository
            referrers: false
            digestTags: false
        """,
    )
    before = (len(requests(source.log())), len(requests(target.log())))
    assert set(outcomes(mirror_run(path)).values()) == {"copied"}
    asked = requests(source.log())[before[0] :]
    # The first tag finds out that there is nothing.
    assert [method for method, path, _ in asked if "/manifests/" in path] == ["HEAD"] + ["GET"] * 5
    asked = requests(target.log())[before[1] :]
    assert [method for method, path, _ in asked if "/manifests/" in path] == ["HEAD"] + ["PUT"] * 5
    assert [method for method, path, _ in asked if "/tags/" in path] == ["GET"]
    assert tags(target.host, repository) == tags(source.host, repository)


def test_a_pinned_image_costs_one_request(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    pinned = put(source.host, repository, "v1")
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - source: {source.host}/{repository}@{pinned.digest}
            target: {target.host}/{repository}:stable
            type: image
            fastCheck: true
        """,
    )
    journal = tmp_path / "journal"
    assert outcomes(mirror_run(path, journal=journal)) == {"stable": "copied"}
    before = (len(requests(source.log())), len(requests(target.log())))
    assert outcomes(mirror_run(path, journal=journal)) == {"stable": "skipped"}
    assert requests(source.log())[before[0] :] == []
    assert [method for method, _, _ in requests(target.log())[before[1] :]] == ["HEAD"]


def test_missing_blobs_under_an_existing_manifest_are_found_and_healed(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str, tmp_path: Path
) -> None:
    put(source.host, repository, "v1", [b"one", b"two"])
    mirror_run(simple)
    lost = list(whole(target.host, repository, "v1"))[-1]
    drop_blob(target.host, repository, lost)
    plan = mirror_plan(simple)
    assert [(item.action, item.reason) for item in plan.items] == [
        ("copy", "the target has the manifest, and lacks blobs of it")
    ]
    report = mirror_run(simple)
    assert [(item.outcome, item.reason) for item in report.items] == [
        ("copied", "blobs or referrers were missing at the target")
    ]
    assert report.totals.copied == 1
    assert whole(target.host, repository, "v1") == whole(source.host, repository, "v1")


def test_the_journal_vouches_until_somebody_asks_for_a_walk(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str, tmp_path: Path
) -> None:
    put(source.host, repository, "v1", [b"one", b"two"])
    journal = tmp_path / "journal"
    mirror_run(simple, journal=journal)
    drop_blob(target.host, repository, list(whole(target.host, repository, "v1"))[-1])
    assert outcomes(mirror_run(simple, journal=journal)) == {"v1": "skipped"}
    assert outcomes(mirror_run(simple, journal=journal, options=RunOptions(full=True))) == {"v1": "copied"}
    assert whole(target.host, repository, "v1") == whole(source.host, repository, "v1")


def test_a_tag_that_moves_is_followed(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ocibridge.mirror import work
    from ocibridge.transfer.copygraph import GraphCopier

    monkeypatch.setattr(work, "LONG", 0.0)
    put(source.host, repository, "v1", [b"old"])
    copy = GraphCopier.copy

    def moving(self: GraphCopier, version: str, tag: str | None = None) -> object:
        done = copy(self, version, tag)
        monkeypatch.setattr(GraphCopier, "copy", copy)
        put(source.host, repository, "v1", [b"new"])
        return done

    monkeypatch.setattr(GraphCopier, "copy", moving)
    report = mirror_run(simple)
    assert [(item.outcome, item.reason) for item in report.items] == [("copied", "the source moved meanwhile")]
    assert tags(target.host, repository) == tags(source.host, repository)
    assert whole(target.host, repository, "v1") == whole(source.host, repository, "v1")


def test_one_failure_does_not_keep_the_others(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    for number in range(3):
        put(source.host, repository, f"v{number}", [b"%d of %s" % (number, repository.encode())])
    broken = list(whole(source.host, repository, "v1"))[-1]
    drop_blob(source.host, repository, broken)
    report = mirror_run(simple)
    assert outcomes(report) == {"v0": "copied", "v1": "failed", "v2": "copied"}
    failed = next(item for item in report.items if item.outcome == "failed")
    assert failed.error is not None
    assert failed.error.type == "NotFound"
    assert broken in failed.error.message
    assert set(tags(target.host, repository)) == {"v0", "v2"}
    assert nonzero(report.counts) == {"copied": 2, "failed": 1}


def test_a_source_that_cannot_be_listed_is_a_failure_among_others(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    put(source.host, repository, "v1")
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - {{source: {source.host}/{repository}/nothing, target: {target.host}/a/{repository}, type: repository}}
          - {{source: {source.host}/{repository}, target: {target.host}/b/{repository}, type: repository}}
        """,
    )
    report = mirror_run(path)
    assert [item.outcome for item in report.items] == ["failed", "copied"]
    plan = mirror_plan(path)
    assert [(each.entry, each.source) for each in plan.failures] == [(0, f"{source.host}/{repository}/nothing")]
    assert plan.counts == {"copy": 0, "skip": 1, "prune": 0, "keep": 0, "failed": 1}
    assert report.counts == {"copied": 1, "skipped": 0, "pruned": 0, "kept": 0, "failed": 1}
    assert [item.listing for item in report.items] == [True, False]


def test_one_source_that_fails_for_two_targets_is_two_failures(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    put(source.host, repository, "v1")
    gone = f"{source.host}/{repository}:gone"
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - {{source: {gone}, target: {target.host}/a/{repository}:v1, type: image}}
          - {{source: {gone}, target: {target.host}/b/{repository}:v1, type: image}}
        """,
    )
    plan, report = mirror_plan(path), mirror_run(path)
    both = [(gone, f"{target.host}/{name}/{repository}:v1") for name in "ab"]
    assert [(each.source, each.target) for each in plan.failures] == both
    assert [(each.source, each.target) for each in report.items] == both
    assert plan.counts["failed"] == report.counts["failed"] == 2


def test_an_entry_that_chooses_nothing_is_warned_of(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    put(source.host, repository, "v1")
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - {{source: {source.host}/{repository}, target: {target.host}/{repository}, type: repository}}
          - source: {source.host}/{repository}
            target: {target.host}/{repository}
            type: repository
            tags: {{allow: [V.*]}}
          - source: {source.host}
            target: {target.host}/b
            type: registry
            repos: {{allow: [{repository}x]}}
        """,
    )
    report = mirror_run(path)
    assert report.warnings == [
        f"sync[1]: {source.host}/{repository} has nothing that its filters choose",
        f"sync[2]: {source.host} has nothing that its filters choose",
    ]
    # Another shard has what this one has not.
    shards = [mirror_run(path, options=RunOptions(shard=Shard(index, 2))) for index in range(2)]
    assert [each.warnings for each in shards] == [report.warnings] * 2
    assert sorted(len(each.items) for each in shards) == [0, 1]


def test_an_index_and_its_platforms(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    children = [put(source.host, repository, None, [b"for %d" % number]) for number in range(2)]
    put_index(source.host, repository, "v1", children)
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - {{source: {source.host}/{repository}, target: {target.host}/{repository}, type: repository}}
        """,
    )
    assert outcomes(mirror_run(path)) == {"v1": "copied"}
    assert whole(target.host, repository, "v1") == whole(source.host, repository, "v1")


def test_a_plan_is_executed_exactly(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str, tmp_path: Path
) -> None:
    put(source.host, repository, "v1", [b"one"])
    plan = MirrorPlan.model_validate_json(mirror_plan(simple).to_json())
    planned = tags(source.host, repository)
    put(source.host, repository, "v1", [b"moved"])
    put(source.host, repository, "v2", [b"came later"])
    report = mirror_run(simple, plan=plan)
    assert outcomes(report) == {"v1": "copied"}
    assert tags(target.host, repository) == planned


def test_a_plan_does_not_overwrite_what_came_after_it(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    put(source.host, repository, "v1", [b"one"])
    plan = mirror_plan(simple)
    other = put(target.host, repository, "v1", [b"somebody else's"])
    report = mirror_run(simple, plan=plan)
    assert report.items[0].error is not None
    assert "has changed since the plan was made" in report.items[0].error.message
    assert tags(target.host, repository) == {"v1": other.digest}


def test_a_plan_belongs_to_its_job(simple: Path, source: RegistryServer, repository: str) -> None:
    put(source.host, repository, "v1")
    plan = mirror_plan(simple)
    simple.write_text(simple.read_text() + "# changed\n")
    with pytest.raises(UsageError, match="the plan was made from another"):
        mirror_run(simple, plan=plan)


def test_shards_do_a_job_together(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    for number in range(12):
        put(source.host, repository, f"v{number}", [b"%d" % number])
    reports = [mirror_run(simple, options=RunOptions(shard=Shard(index, 3))) for index in range(3)]
    assert sorted(tag for each in reports for tag in outcomes(each)) == sorted(tags(source.host, repository))
    assert all(len(each.items) > 0 for each in reports)
    assert tags(target.host, repository) == tags(source.host, repository)


def test_the_first_failure_can_end_the_run(
    simple: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    for number in range(30):
        put(source.host, repository, f"v{number:02}", [b"%d of %s" % (number, repository.encode())])
    drop_blob(source.host, repository, list(whole(source.host, repository, "v00"))[-1])
    report = mirror_run(simple, options=RunOptions(workers=1, abort_on_error=True))
    assert report.counts["failed"] == 1
    assert len(report.items) < 30


def test_what_is_replaced_can_be_kept(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    put(source.host, repository, "v1", [b"new"])
    old = put(target.host, repository, "v1", [b"old"])
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - source: {source.host}/{repository}
            target: {target.host}/{repository}
            type: repository
            backup: "old-{{tag}}"
        """,
    )
    mirror_run(path)
    found = tags(target.host, repository)
    assert found == {"v1": tags(source.host, repository)["v1"], "old-v1": old.digest}


def test_a_target_that_is_away_is_named(tmp_path: Path, source: RegistryServer, repository: str) -> None:
    put(source.host, repository, "v1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{probe.getsockname()[1]}"
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - {{source: {source.host}/{repository}, target: {away}/{repository}, type: repository}}
        """,
    )
    report = mirror_run(path)
    assert nonzero(report.counts) == {"failed": 1}
    assert report.items[0].error is not None
    assert f"{away} refused the connection" in report.items[0].error.message
