# SPDX-License-Identifier: Apache-2.0
"""Deleting what the source has no more, and every reason not to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocibridge.errors import StoreError
from ocibridge.mirror.options import RunOptions
from ocibridge.mirror.plan import mirror_plan
from ocibridge.mirror.prune import DRY_RUN
from ocibridge.mirror.reports import MirrorReport
from ocibridge.mirror.run import mirror_run
from ocibridge.oci import RegistryReference
from ocibridge.stores.base import Store
from ocibridge.stores.registry import RegistryStore

from ..registry import RegistryServer
from .artifacts import drop_blob, job, put, put_index, tags, whole
from .jobs import nonzero


def pruned(report: MirrorReport) -> dict[str, tuple[str, str]]:
    """Outcome and reason of what the source does not have, by tag."""
    return {item.target.rpartition(":")[2]: (item.outcome, item.reason) for item in report.items if item.source is None}


class Site:
    """A job that prunes, between two repositories of ten tags."""

    def __init__(self, path: Path, source: RegistryServer, target: RegistryServer, repository: str) -> None:
        self.path, self.source, self.target, self.repository = path, source, target, repository
        for number in range(10):
            for host in (source.host, target.host):
                put(host, repository, f"v{number}", [b"%d of %s" % (number, repository.encode())])

    def job(self, prune: str = "{enabled: true, dryRun: false}", more: str = "") -> Path:
        return job(
            self.path / "job.yaml",
            f"""
            version: 1
            sync:
              - source: {self.source.host}/{self.repository}
                target: {self.target.host}/{self.repository}
                type: repository
                prune: {prune}
                {more}
            """,
        )

    def extra(self, tag: str, data: bytes = b"only here") -> str:
        return put(self.target.host, self.repository, tag, [data]).digest

    @property
    def there(self) -> dict[str, str]:
        return tags(self.target.host, self.repository)


@pytest.fixture
def site(tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str) -> Site:
    return Site(tmp_path, source, target, repository)


def test_a_dry_run_is_the_default(site: Site) -> None:
    digest = site.extra("gone")
    path = site.job("{enabled: true}")
    plan = mirror_plan(path)
    assert [(item.target.rpartition(":")[2], item.reason) for item in plan.items if item.action == "keep"] == [
        ("gone", DRY_RUN)
    ]
    assert pruned(mirror_run(path)) == {"gone": ("kept", DRY_RUN)}
    assert site.there["gone"] == digest


def test_what_the_source_does_not_have_is_deleted(site: Site) -> None:
    site.extra("gone")
    path = site.job()
    plan = mirror_plan(path)
    assert plan.counts["prune"] == 1
    assert "gone" in site.there
    assert pruned(mirror_run(path)) == {"gone": ("pruned", "the job does not bring it")}
    assert site.there == tags(site.source.host, site.repository)


def test_a_plan_prunes_nothing_of_a_repository_in_which_something_failed(site: Site) -> None:
    digest = site.extra("gone")
    put(site.source.host, site.repository, "new", [b"new in " + site.repository.encode()])
    path = site.job()
    plan = mirror_plan(path)
    assert plan.counts["prune"] == 1
    drop_blob(site.source.host, site.repository, list(whole(site.source.host, site.repository, "new"))[-1])
    assert pruned(mirror_run(path, plan=plan)) == {
        "gone": ("kept", "not everything of this repository could be brought in sync")
    }
    assert site.there["gone"] == digest


def test_a_run_that_ends_with_the_first_failure_prunes_nothing(site: Site) -> None:
    digest = site.extra("gone")
    put(site.source.host, site.repository, "new", [b"new in " + site.repository.encode()])
    drop_blob(site.source.host, site.repository, list(whole(site.source.host, site.repository, "new"))[-1])
    report = mirror_run(site.job(), options=RunOptions(abort_on_error=True))
    assert (report.counts["failed"], pruned(report)) == (1, {})
    assert site.there["gone"] == digest


def test_a_plan_prunes_what_it_says_and_nothing_that_has_changed(site: Site) -> None:
    site.extra("gone")
    path = site.job()
    plan = mirror_plan(path)
    digest = site.extra("gone", b"new content under the old name")
    assert pruned(mirror_run(path, plan=plan)) == {"gone": ("kept", "it has changed since the plan was made")}
    assert site.there["gone"] == digest


def test_the_guard_stops_too_large_a_share(site: Site) -> None:
    for number in range(3):
        site.extra(f"gone{number}", b"%d" % number)
    found = pruned(mirror_run(site.job()))
    assert {outcome for outcome, _ in found.values()} == {"kept"}
    assert found["gone0"][1] == "guard: 3 of 13 tags would be deleted (23%), and 'maxShare' allows 10%"
    assert len(site.there) == 13
    mirror_run(site.job("{enabled: true, dryRun: false, maxShare: 0.3}"))
    assert len(site.there) == 10


def test_an_empty_source_deletes_nothing(site: Site) -> None:
    path = site.job(
        "{enabled: true, dryRun: false, maxShare: 1, tags: {allow: ['.*']}}", "tags: {allow: ['nothing.*']}"
    )
    found = pruned(mirror_run(path))
    assert len(found) == 10
    assert {reason for _, reason in found.values()} == {
        "the source has nothing left: that is rather a mistake than the truth"
    }
    assert len(site.there) == 10


def test_a_manifest_with_another_tag_stays(site: Site) -> None:
    data = b"3 of " + site.repository.encode()
    put(site.target.host, site.repository, "alias", [data])
    assert pruned(mirror_run(site.job())) == {"alias": ("kept", "the tag v3 has the same manifest")}
    assert site.there["v3"] == site.there["alias"]


def test_the_child_of_an_index_stays(site: Site) -> None:
    for host in (site.source.host, site.target.host):
        child = put(host, site.repository, None, [b"child"])
        put_index(host, site.repository, "many", [child])
    put(site.target.host, site.repository, "one", [b"child"])
    assert pruned(mirror_run(site.job())) == {"one": ("kept", "the index many names its manifest")}
    assert whole(site.target.host, site.repository, "many")


def test_what_refers_to_something_that_stays_is_kept(site: Site) -> None:
    with RegistryStore(_reference(site)) as store:
        subject = store.fetch_manifest("v1")[0]
    put(site.target.host, site.repository, "notes", [b"about v1"], subject=subject, artifact_type="text/notes")
    assert pruned(mirror_run(site.job())) == {"notes": ("kept", "it refers to a manifest that stays")}
    assert "notes" in site.there


def test_companions_and_digest_tags_stay_with_their_models(site: Site) -> None:
    site.extra("v1-image", b"image")
    site.extra("v2-ollama", b"ollama")
    site.extra(f"sha256-{'a' * 64}.sig", b"signature")
    assert pruned(mirror_run(site.job())) == {}
    assert len(site.there) == 13


def test_only_the_tags_that_the_filter_names_are_deleted(site: Site) -> None:
    site.extra("old1", b"1")
    site.extra("mine", b"2")
    mirror_run(site.job("{enabled: true, dryRun: false, tags: {allow: ['old.*']}}"))
    assert "old1" not in site.there
    assert "mine" in site.there


def test_nothing_is_deleted_where_something_failed(site: Site) -> None:
    site.extra("gone")
    put(site.source.host, site.repository, "new", [b"new of " + site.repository.encode()])
    drop_blob(site.source.host, site.repository, list(whole(site.source.host, site.repository, "new"))[-1])
    report = mirror_run(site.job())
    assert report.counts["failed"] == 1
    assert pruned(report) == {"gone": ("kept", "not everything of this repository could be brought in sync")}
    assert "gone" in site.there


def test_what_is_deleted_can_be_kept_under_another_tag(site: Site) -> None:
    digest = site.extra("gone")
    path = site.job('{enabled: true, dryRun: false, backup: "pruned-{tag}"}')
    assert pruned(mirror_run(path))["gone"][0] == "pruned"
    assert site.there.get("gone") is None
    assert site.there["pruned-gone"] == digest
    assert whole(site.target.host, site.repository, "pruned-gone")
    # The backup is no candidate itself.
    assert pruned(mirror_run(path)) == {}


def test_the_manifest_goes_with_its_tags(site: Site) -> None:
    digest = site.extra("gone")
    site.extra("alias")
    found = pruned(mirror_run(site.job("{enabled: true, dryRun: false, maxShare: 0.5}")))
    assert {outcome for outcome, _ in found.values()} == {"pruned"}
    with RegistryStore(_reference(site)) as store:
        assert store.head(digest) is None


def test_a_registry_that_forbids_it_is_a_failure(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.extra("gone")

    def forbidden(self: Store, version: str) -> None:
        raise StoreError("deleting is not allowed", hint="ask its administrator", status=403)

    monkeypatch.setattr(RegistryStore, "delete", forbidden)
    report = mirror_run(site.job())
    assert nonzero(report.counts) == {"skipped": 10, "failed": 1}
    assert "gone" in site.there


def test_a_registry_that_deletes_the_manifest_with_its_tag_gets_the_backup_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = site.extra("gone")
    delete = RegistryStore.delete

    def greedy(self: Store, version: str) -> None:
        assert isinstance(self, RegistryStore)
        found = self.head(version)
        assert found is not None
        delete(self, found.digest)

    monkeypatch.setattr(RegistryStore, "delete", greedy)
    report = mirror_run(site.job('{enabled: true, dryRun: false, backup: "pruned-{tag}"}'))
    assert pruned(report)["gone"][0] == "pruned"
    assert site.there.get("gone") is None
    assert site.there["pruned-gone"] == digest


def _reference(site: Site) -> RegistryReference:
    return RegistryReference(site.target.host, site.repository)
