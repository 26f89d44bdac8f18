# SPDX-License-Identifier: Apache-2.0
"""Copying a root: what moves, what is asked, what is mounted, and in which order."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ocibridge.errors import DestinationError, IntegrityError, NotFound, StoreError
from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_DOCKER_MANIFEST, MEDIA_TYPE_MANIFEST, Descriptor, Manifest, RegistryReference
from ocibridge.settings import MiB
from ocibridge.stores.archive import ArchiveStore
from ocibridge.stores.archivewriter import ArchiveWriter
from ocibridge.stores.base import Store
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.registry import RegistryOptions, RegistryStore, Retry
from ocibridge.transfer.copygraph import CopyResult, GraphCopier, GraphOptions
from ocibridge.transfer.graph import Node
from ocibridge.transfer.session import CopySession

from ..stores.registry.fault_server import FaultServer, Reply
from ..stores.samples import sample
from .conftest import MakeStore
from .graphs import Logged, on, push_index, referrer

ONE = GraphOptions(concurrency=1)
BARE = GraphOptions(concurrency=1, referrers=False)


def moved(copied: CopyResult) -> tuple[int, int, int, int]:
    return copied.copied, copied.mounted, copied.present, copied.manifests


def test_a_new_repository_is_asked_nothing_a_blob(
    here: Logged, there: Logged, source: RegistryStore, target: RegistryStore
) -> None:
    model = sample(b"one", b"two", b"one", b"")
    model.push(source, "v1")
    here.asked(source), there.asked(target)
    copied = GraphCopier(source, target, BARE).copy("v1", "v1")
    # Blobs: the config and three different layers.
    assert here.asked(source) == {"GET manifests 200": 1, "GET blobs 200": 4}
    assert there.asked(target) == {
        "GET tags 404": 1,
        "POST uploads 202": 4,
        "PUT uploads 201": 4,
        "PUT manifests 201": 1,
    }
    assert moved(copied) == (4, 0, 0, 1)
    assert (copied.copied_bytes, copied.descriptor.digest, copied.tags) == (8, model.digest, ("v1",))
    model.assert_in(target, "v1")


def test_the_requests_of_a_copy(here: Logged, there: Logged, source: RegistryStore, target: RegistryStore) -> None:
    for tag, word in (("v1", b"one"), ("v2", b"two"), ("v3", b"three")):
        sample(word, b"both").push(source, tag)
    session = CopySession()
    here.asked(source), there.asked(target)
    GraphCopier(source, target, ONE, session).copy("v1", "v1")
    # The one GET of a manifest that is not there: whether anything refers to the artifact.
    assert here.asked(source) == {
        "GET manifests 200": 1,
        "GET blobs 200": 3,
        "GET referrers 404": 1,
        "GET manifests 404": 1,
    }
    assert there.asked(target) == {
        "GET tags 404": 1,
        "POST uploads 202": 3,
        "PUT uploads 201": 3,
        "PUT manifests 201": 1,
    }
    GraphCopier(source, target, ONE, session).copy("v2", "v2")
    assert here.asked(source) == {"GET manifests 200": 1, "GET blobs 200": 1, "GET manifests 404": 1}
    assert there.asked(target) == {"POST uploads 202": 1, "PUT uploads 201": 1, "PUT manifests 201": 1}
    # Another run, to a repository that has something.
    session = CopySession()
    session.remember_tags(source, ["v1", "v2", "v3"])
    GraphCopier(source, target, ONE, session).copy("v3", "v3")
    assert here.asked(source) == {"GET manifests 200": 1, "GET blobs 200": 1}
    assert there.asked(target) == {
        "GET tags 200": 1,
        "HEAD manifests 404": 2,
        "HEAD blobs 404": 1,
        "HEAD blobs 200": 2,
        "POST uploads 202": 1,
        "PUT uploads 201": 1,
        "PUT manifests 201": 1,
    }


def test_what_is_in_step_costs_two_requests(
    here: Logged, there: Logged, source: RegistryStore, target: RegistryStore
) -> None:
    sample(b"one").push(source, "v1")
    GraphCopier(source, target, BARE).copy("v1", "v1")
    session = CopySession()
    session.is_new(target)
    here.asked(source), there.asked(target)
    copied = GraphCopier(source, target, BARE, session).copy("v1", "v1")
    assert moved(copied) == (0, 0, 2, 0)
    assert copied.tags == ("v1",)
    assert here.asked(source) == {"GET manifests 200": 1}
    assert there.asked(target) == {"HEAD manifests 200": 1}


def test_within_one_registry_no_byte_of_a_blob_moves(here: Logged, open_store: MakeStore) -> None:
    source, target = open_store(here), open_store(here)
    model = sample(b"one", bytes(2 * MiB))
    model.push(source, "v1")
    here.asked(source)
    copied = GraphCopier(source, target, BARE).copy("v1", "v1")
    asked = here.asked(target)
    model.assert_in(target, "v1")
    assert moved(copied) == (0, 3, 0, 1)
    assert asked == {"GET manifests 200": 1, "GET tags 404": 1, "mount 201": 3, "PUT manifests 201": 1}
    # A new tag in the same repository is a manifest.
    here.asked(target)
    again = GraphCopier(target, target, BARE).copy("v1", "v2")
    assert moved(again) == (0, 0, 3, 1)
    assert here.asked(target) == {
        "GET tags 200": 1,
        "GET manifests 200": 1,
        "HEAD manifests 404": 1,
        "HEAD manifests 200": 1,
        "PUT manifests 201": 1,
    }


def test_what_one_repository_got_is_mounted_into_the_next(
    here: Logged, there: Logged, source: RegistryStore, open_store: MakeStore
) -> None:
    model = sample(b"one", b"two")
    model.push(source, "v1")
    seen: list[tuple[str, str]] = []
    session = CopySession(on_blob=lambda digest, size, name, action: seen.append((name, action)))
    first, second = open_store(there), open_store(there)
    GraphCopier(source, first, BARE, session).copy("v1", "v1")
    here.asked(source)
    copied = GraphCopier(source, second, BARE, session).copy("v1", "v1")
    assert moved(copied) == (0, 3, 0, 1)
    assert "GET blobs 200" not in here.asked(source)
    model.assert_in(second, "v1")
    assert Counter(seen) == {(first.name, "copied"): 3, (second.name, "mounted"): 3}


def test_a_mount_that_is_refused_becomes_an_upload(there: Logged, source: RegistryStore, open_store: MakeStore) -> None:
    model = sample(b"one", b"two", b"three", b"four")
    model.push(source, "v1")
    first, second = open_store(there), open_store(there)
    session = CopySession()
    for blob, _ in model.blobs:
        session.presence(second, blob.digest).homes[first.name] = first  # which is not so
    there.asked(second)
    copied = GraphCopier(source, second, BARE, session).copy("v1", "v1")
    assert moved(copied) == (5, 0, 0, 1)
    model.assert_in(second, "v1")
    # Three in a row are enough to see that it does not work.
    assert there.asked(second)["mount 202"] == 3


def test_blobs_of_a_run_move_once_however_many_threads_want_them(
    here: Logged, source: RegistryStore, target: RegistryStore
) -> None:
    for number in range(8):
        sample(b"both", str(number).encode()).push(source, f"v{number}")
    seen: list[tuple[str, str]] = []
    session = CopySession(on_blob=lambda digest, size, name, action: seen.append((digest, action)))
    start = threading.Barrier(8)

    def copy(number: int) -> CopyResult:
        start.wait(10)
        return GraphCopier(source, target, ONE, session).copy(f"v{number}", f"v{number}")

    here.asked(source)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(copy, range(8)))
    assert sum(each.copied for each in done) == 10
    assert sum(each.present for each in done) == 14
    assert here.asked(source)["GET blobs 200"] == 10
    assert len({digest for digest, action in seen if action == "copied"}) == 10


def test_blobs_that_a_journal_names_are_asked_for(there: Logged, source: RegistryStore, target: RegistryStore) -> None:
    model = sample(b"one")
    model.push(source, "v1")
    for blob, data in model.blobs:
        target.push_blob(blob, BytesContent(data))
    there.asked(target)
    journalled = {(target.name, blob.digest) for blob, _ in model.blobs}
    copied = GraphCopier(source, target, BARE, CopySession(journalled=journalled)).copy("v1", "v1")
    assert moved(copied) == (0, 0, 2, 1)
    assert there.asked(target) == {"GET tags 404": 1, "HEAD blobs 200": 2, "PUT manifests 201": 1}


def test_blobs_that_a_journal_names_elsewhere_in_the_registry_are_mounted(
    there: Logged, source: RegistryStore, target: RegistryStore, open_store: MakeStore
) -> None:
    """An earlier run has brought them, and nothing in this one looks at where that was."""
    model, other = sample(b"one"), open_store(there)
    model.push(source, "v1")
    for blob, data in model.blobs:
        other.push_blob(blob, BytesContent(data))
    journalled = {(other.name, blob.digest) for blob, _ in model.blobs}
    session = CopySession(journalled=journalled, opened={other.name: other}.__getitem__)
    assert moved(GraphCopier(source, target, BARE, session).copy("v1", "v1")) == (0, 2, 0, 1)
    model.assert_in(target, "v1")


def test_large_blobs_are_asked_for_where_all_looks_new(source: RegistryStore, target: RegistryStore) -> None:
    model = sample(bytes(MiB))
    model.push(source, "v1")
    target.push_blob(model.blobs[1][0], BytesContent(bytes(MiB)))
    assert moved(GraphCopier(source, target).copy("v1", "v1")) == (1, 0, 1, 1)


def test_docker_manifests_keep_their_bytes(source: RegistryStore, target: RegistryStore) -> None:
    config = Descriptor.of(b"{}", "application/vnd.docker.container.image.v1+json")
    source.push_blob(config, BytesContent(b"{}"))
    data = Manifest(media_type=MEDIA_TYPE_DOCKER_MANIFEST, config=config, layers=[]).to_json() + b"\n"
    pushed = source.push_manifest(data, MEDIA_TYPE_DOCKER_MANIFEST, "v1")
    assert GraphCopier(source, target).copy("v1", "v1").descriptor == pushed
    assert target.fetch_manifest("v1") == (pushed, data)


def test_an_index_comes_with_all_below_it(source: RegistryStore, target: RegistryStore) -> None:
    one, two = sample(b"one", b"both"), sample(b"two", b"both")
    inner = push_index(source, [two.push(source, None)], None)
    push_index(source, [one.push(source, None), inner], "v1")
    copied = GraphCopier(source, target).copy("v1", "v1")
    assert moved(copied) == (4, 0, 0, 4)
    one.assert_in(target, one.digest)
    two.assert_in(target, two.digest)
    assert target.resolve("v1") == source.resolve("v1")


def test_chosen_platforms_make_a_sparse_index(source: RegistryStore, target: RegistryStore, tmp_path: Path) -> None:
    one, two = sample(b"one"), sample(b"two")
    index = push_index(
        source, [on(one.push(source, None), "linux/amd64"), on(two.push(source, None), "linux/arm64")], "v1"
    )
    options = GraphOptions(platforms=("linux/arm64",))
    layout = LayoutStore(tmp_path / "layout", create=True)
    copied = GraphCopier(source, layout, options).copy("v1", "v1")
    assert moved(copied) == (2, 0, 0, 2)
    assert layout.resolve("v1").digest == index.digest
    assert layout.head(two.digest) is not None
    assert layout.head(one.digest) is None
    # What is sparse itself can be copied on, with a word about it.
    onward = LayoutStore(tmp_path / "onward", create=True)
    again = GraphCopier(layout, onward).copy("v1", "v1")
    assert again.warnings == (
        f"{layout.name} lacks the manifest {one.digest}, which the index {index.digest} lists: it was left out",
    )
    assert onward.head(two.digest) is not None
    with pytest.raises(StoreError) as caught:
        GraphCopier(source, target, options).copy("v1", "v1")
    assert caught.value.hint == "this registry takes no index without all of its manifests: copy all platforms"
    assert target.head("v1") is None


def test_a_subject_that_is_not_there_is_worth_a_word(source: RegistryStore, target: RegistryStore) -> None:
    gone = sample(b"gone")
    subject = Descriptor.of(gone.manifest, MEDIA_TYPE_MANIFEST)
    sbom = referrer(subject)
    sbom.push(source, "v1")
    copied = GraphCopier(source, target).copy("v1", "v1")
    assert copied.warnings == (f"{source.name} lacks the manifest {gone.digest}, which {sbom.digest} refers to",)
    sbom.assert_in(target, "v1")


def test_a_digest_is_copied_without_a_tag(source: RegistryStore, target: RegistryStore) -> None:
    model = sample(b"one")
    model.push(source, "v1")
    copied = GraphCopier(source, target).copy(model.digest)
    assert copied.tags == ()
    model.assert_in(target, model.digest)
    assert target.head("v1") is None


def test_two_tags_of_one_root_cost_one_copy(there: Logged, source: RegistryStore, target: RegistryStore) -> None:
    model = sample(b"one")
    referrer(model.push(source, "v1")).push(source, None)
    model.push(source, "latest")
    session = CopySession()
    GraphCopier(source, target, ONE, session).copy("v1", "v1")
    there.asked(target)
    copied = GraphCopier(source, target, ONE, session).copy("latest", "latest")
    assert moved(copied) == (0, 0, 2, 1)
    assert there.asked(target) == {"PUT manifests 201": 1}


class Moving(LayoutStore):
    """A layout whose tag is moved as soon as it has been looked at."""

    def _read_manifest(self, version: str) -> tuple[bytes, str | None]:
        found = super()._read_manifest(version)
        if version == "v1":
            sample(b"new").push(LayoutStore(self.path), "v1")
        return found


def test_a_tag_that_moves_meanwhile_does_no_harm(target: RegistryStore, tmp_path: Path) -> None:
    source = Moving(tmp_path / "layout", create=True)
    old = sample(b"old")
    old.push(LayoutStore(source.path), "v1")
    assert GraphCopier(source, target).copy("v1", "v1").descriptor.digest == old.digest
    old.assert_in(target, "v1")
    assert GraphCopier(source, target).copy("v1", "v1").descriptor.digest == sample(b"new").digest
    sample(b"new").assert_in(target, "v1")


def test_blobs_that_are_missing_below_a_manifest_are_found(
    there: Logged, source: RegistryStore, target: RegistryStore
) -> None:
    model = sample(b"one", b"two")
    model.push(source, "v1")
    GraphCopier(source, target).copy("v1", "v1")
    lost = model.blobs[1][0]
    _delete_blob(target, lost)
    assert moved(GraphCopier(source, target).copy("v1", "v1")) == (0, 0, 3, 0)
    there.asked(target)
    healed = GraphCopier(source, target, GraphOptions(full=True, referrers=False)).copy("v1", "v1")
    assert moved(healed) == (1, 0, 2, 0)
    assert there.asked(target)["PUT manifests 201"] == 0
    model.assert_in(target, "v1")


def test_what_was_believed_wrongly_is_found_out(source: RegistryStore, target: RegistryStore) -> None:
    one, two = sample(b"one", b"both"), sample(b"two", b"both")
    one.push(source, "v1")
    two.push(source, "v2")
    session = CopySession()
    GraphCopier(source, target, BARE, session).copy("v1", "v1")
    _delete_blob(target, one.blobs[2][0])
    copied = GraphCopier(source, target, BARE, session).copy("v2", "v2")
    two.assert_in(target, "v2")
    assert copied.manifests == 1


def _delete_blob(store: RegistryStore, blob: Descriptor) -> None:
    path = f"blobs/{blob.digest}"
    call = store.client.call(store.container, "DELETE", path, "deleting a blob", "delete,pull")
    store.client.request(call, accept=(202,))
    assert not store.has_blob(blob)


def test_missing_says_what_would_move(there: Logged, source: RegistryStore, open_store: MakeStore) -> None:
    first, second = open_store(there), open_store(there)
    one, two = sample(b"one", b"both"), sample(b"two", b"both")
    referrer(one.push(source, "v1")).push(source, None)
    two.push(source, "v2")
    session = CopySession()
    there.asked(first)
    foreseen = [GraphCopier(source, first, ONE, session).plan(tag, tag) for tag in ("v1", "v2")]
    foreseen.append(GraphCopier(source, second, ONE, session).plan("v2", "v2"))
    assert set(there.asked(first)) == {"GET tags 404"}
    session = CopySession()
    done = [GraphCopier(source, first, ONE, session).copy(tag, tag) for tag in ("v1", "v2")]
    done.append(GraphCopier(source, second, ONE, session).copy("v2", "v2"))
    assert foreseen == done
    assert [moved(each) for each in done] == [(4, 0, 0, 2), (1, 0, 2, 1), (0, 3, 0, 1)]


def test_missing_of_what_is_in_step(source: RegistryStore, target: RegistryStore) -> None:
    model = sample(b"one")
    model.push(source, "v1")
    GraphCopier(source, target).copy("v1", "v1")
    full = GraphOptions(full=True)
    assert moved(GraphCopier(source, target).plan("v1", "v1")) == (0, 0, 2, 0)
    assert moved(GraphCopier(source, target, full).plan("v1", "v1")) == (0, 0, 2, 0)
    _delete_blob(target, model.blobs[1][0])
    assert moved(GraphCopier(source, target, full).plan("v1", "v1")) == (1, 0, 1, 0)


@pytest.mark.parametrize("size", [1000, 3 * MiB])
def test_other_bytes_than_promised_leave_no_tag(target: RegistryStore, tmp_path: Path, size: int) -> None:
    source = LayoutStore(tmp_path / "layout", create=True)
    model = sample(bytes(size))
    model.push(source, "v1")
    path = source.path / "blobs/sha256" / model.blobs[1][0].digest[7:]
    path.write_bytes(b"\1" + bytes(size - 1))
    with pytest.raises(IntegrityError) as caught:
        GraphCopier(source, target).copy("v1", "v1")
    assert model.blobs[1][0].digest in caught.value.message
    assert source.name in caught.value.message
    assert target.head("v1") is None


def test_a_blob_that_the_source_lacks_leaves_no_tag(target: RegistryStore, tmp_path: Path) -> None:
    source = LayoutStore(tmp_path / "layout", create=True)
    model = sample(b"one", b"two")
    model.push(source, "v1")
    (source.path / "blobs/sha256" / model.blobs[1][0].digest[7:]).unlink()
    with pytest.raises(NotFound, match=f"has no blob {model.blobs[1][0].digest}"):
        GraphCopier(source, target).copy("v1", "v1")
    assert target.head("v1") is None


def test_a_root_can_be_refused_before_anything_moves(
    there: Logged, source: RegistryStore, target: RegistryStore
) -> None:
    model = sample(b"one")
    model.push(source, "v1")

    def refuse(root: Node) -> None:
        assert root.digest == model.digest
        raise StoreError("it is not signed")

    there.asked(target)
    with pytest.raises(StoreError, match="it is not signed"):
        GraphCopier(source, target, GraphOptions(before=refuse)).copy("v1", "v1")
    assert there.asked(target) == {}


def test_the_throttle_hears_of_every_byte(source: RegistryStore, target: RegistryStore) -> None:
    sample(b"one", bytes(MiB)).push(source, "v1")
    counts: list[int] = []
    copied = GraphCopier(source, target, session=CopySession(throttle=counts.append)).copy("v1", "v1")
    assert sum(counts) == copied.copied_bytes == MiB + 5


def test_a_line_that_breaks_is_taken_up_where_it_broke(target: RegistryStore) -> None:
    data = bytes(range(256)) * 8192
    model = sample(data)
    blob = model.blobs[1][0]
    url = f"/v2/r/blobs/{blob.digest}"
    with FaultServer() as server:
        manifest = Reply(200, model.manifest, {"Content-Type": MEDIA_TYPE_MANIFEST})
        server.on("GET", "/v2/r/manifests/v1", manifest)
        server.on("GET", f"/v2/r/blobs/{model.blobs[0][0].digest}", Reply(200, model.blobs[0][1]))
        cut = MiB + 5
        rest = {"Content-Range": f"bytes {cut}-{len(data) - 1}/{len(data)}"}
        server.on("GET", url, Reply(200, data, cut=cut), Reply(206, data[cut:], rest))
        options = RegistryOptions(retries=Retry(first=0.01))
        with RegistryStore(RegistryReference(server.host, "r"), options) as source:
            GraphCopier(source, target, BARE).copy("v1", "v1")
        assert [seen.headers.get("range") for seen in server.requests("GET", url)] == [None, f"bytes={cut}-"]
    model.assert_in(target, "v1")


def test_a_layout_without_room_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    with LayoutStore(tmp_path / "a", create=True) as source, LayoutStore(tmp_path / "b", create=True) as target:
        model = sample(b"one", bytes(10 * MiB))
        model.push(source, "v1")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=MiB))
        with pytest.raises(
            DestinationError, match=r"oci:.*/b: it needs 10\.0 MiB, and 1\.0 MiB are free; free 9\.0 MiB"
        ):
            GraphCopier(source, target).copy("v1", "v1")
        assert target.is_new()
        # An interrupted copy has left most of it.
        (tmp_path / "b" / ".ocibridge-0.part").write_bytes(bytes(9 * MiB + 65536))
        GraphCopier(source, target).copy("v1", "v1")
        model.assert_in(target, "v1")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
        GraphCopier(source, target).copy("v1", "v2")


@pytest.mark.parametrize("kind", ["layout", "archive"])
def test_layouts_and_archives(source: RegistryStore, target: RegistryStore, tmp_path: Path, kind: str) -> None:
    def opened(name: str, create: bool) -> Store:
        path = tmp_path / name
        return LayoutStore(path, create=create) if kind == "layout" else ArchiveStore(path, create=create)

    model = sample(b"one", b"two")
    sbom = referrer(model.push(source, "v1"))
    sbom.push(source, None)
    with opened("a", True) as first:
        assert moved(GraphCopier(source, first).copy("v1", "v1")) == (4, 0, 0, 2)
        model.assert_in(first, "v1")
    with opened("a", False) as first, opened("b", True) as second:
        assert moved(GraphCopier(first, second).copy("v1", "v2")) == (4, 0, 0, 2)
        assert second.tags() == ["v2"]
        assert moved(GraphCopier(first, second).copy("v1", "v2")) == (0, 0, 3, 0)
    with opened("b", False) as second:
        copied = GraphCopier(second, target).copy("v2", "v3")
        assert (copied.copied, copied.referrers) == (4, 1)
    model.assert_in(target, "v3")
    sbom.assert_in(target, sbom.digest)
    assert [each.digest for each in target.referrers(model.digest)] == [sbom.digest]


def test_an_archive_is_written_once_for_a_root(tmp_path: Path, source: RegistryStore) -> None:
    inodes = []
    model = sample(b"one")
    descriptor = model.push(source, "v1")
    for word in ("one", "two", "three"):
        referrer(descriptor, word).push(source, None)

    class ProgressReader(ArchiveStore):
        def _commit(self, writer: ArchiveWriter) -> None:
            super()._commit(writer)
            inodes.append(self.path.stat().st_ino)

    with ProgressReader(tmp_path / "a.tar", create=True) as archive:
        assert GraphCopier(source, archive).copy("v1", "v1").referrers == 3
        assert len(inodes) == 1
        assert GraphCopier(source, archive).copy("v1", "v1").manifests == 0
        assert len(inodes) == 1
