# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import io
import os
import tarfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ocibridge.errors import (
    DestinationError,
    IntegrityError,
    NotFound,
    StoreError,
)
from ocibridge.io.content import BytesContent, Content
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.oci import Descriptor
from ocibridge.oci.manifest import ANNOTATION_REF_NAME
from ocibridge.stores.archive import ArchiveStore, open_archive
from ocibridge.stores.archivewriter import ArchiveWriter
from ocibridge.stores.imageindex import Entry, ImageIndex
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.view import RepositoryView

from .samples import LAYER, Sample, files, read, sample

BLOB = Descriptor.of(b"abc", LAYER)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "models.tar"


OVERWRITE = TargetRules(Existing.OVERWRITE)


def entry(model: Sample, name: str | None) -> Entry:
    descriptor = Descriptor.of(model.manifest, "application/vnd.oci.image.manifest.v1+json")
    if name is not None:
        descriptor = descriptor.model_copy(update={"annotations": {ANNOTATION_REF_NAME: name}})
    return descriptor.model_dump(mode="json", by_alias=True, exclude_none=True)


def write(
    path: Path, named: dict[str, Sample], *nameless: Sample, size: int | None = None, rules: TargetRules = TargetRules()
) -> None:
    models = [*named.values(), *nameless]
    with ArchiveWriter(path, size, rules=rules) as writer:
        for model in models:
            for descriptor, data in model.blobs:
                writer.add(descriptor, BytesContent(data))
            writer.add(Descriptor.of(model.manifest, ""), BytesContent(model.manifest))
        names = [*named, *(None for _ in nameless)]
        writer.publish(ImageIndex.of([entry(model, name) for model, name in zip(models, names, strict=True)]))


def packed(path: Path, *entries: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    """Another tool's archive."""
    with tarfile.open(path, "w") as tar:
        for each in entries:
            if isinstance(each, tarfile.TarInfo):
                tar.addfile(each)
            else:
                info = tarfile.TarInfo(each[0])
                info.size = len(each[1])
                tar.addfile(info, io.BytesIO(each[1]))
    return path


LAYOUT = ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
INDEX = ("index.json", b'{"schemaVersion":2,"manifests":[]}')
A, B = "example.com/a:v1", "example.com/b:v1"


class TestWriting:
    def test_round_trip(self, path: Path) -> None:
        one, two = sample(b"one" * 1000, b"shared"), sample(b"", b"x" * 512, b"shared")
        write(path, {A: one, B: two})
        store = ArchiveStore(path)
        assert store.tags() == [A, B]
        one.assert_in(store, A)
        two.assert_in(store, two.digest)
        assert list(files(path.parent)) == ["models.tar"]

    def test_form(self, path: Path) -> None:
        model = sample(b"one")
        write(path, {A: model, B: model})
        with tarfile.open(path) as tar:
            names = [each.name for each in tar]
            assert all((each.mtime, each.uid, each.gid, each.mode) == (0, 0, 0, 0o644) for each in tar)
        digests = [*(blob.digest for blob, _ in model.blobs), model.digest]
        assert names == ["oci-layout", *(f"blobs/sha256/{digest[7:]}" for digest in digests), "index.json"]

    def test_other_readers_of_ours_take_it(self, path: Path, tmp_path: Path) -> None:
        model = sample(b"one")
        write(path, {A: model})
        model.assert_in(ArchiveStore(path), A)
        with tarfile.open(path) as tar:
            for member in tar:
                file = tmp_path / "folder" / member.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(tar.extractfile(member).read())  # type: ignore[union-attr]
        model.assert_in(LayoutStore(tmp_path / "folder"), A)

    @pytest.mark.parametrize("size", [None, 64 * 1024])
    def test_same_input_same_bytes(self, tmp_path: Path, size: int | None) -> None:
        found = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            write(tmp_path / name / "x.tar", {A: sample(b"z" * 300_000)}, size=size)
            found.append(files(tmp_path / name))
        assert found[0] == found[1]

    @pytest.mark.parametrize("data", [b"abd", b"ab", b"abcd", b"abc" * 500_000])
    @pytest.mark.parametrize("size", [None, 64 * 1024])
    def test_wrong_bytes_leave_nothing(self, path: Path, data: bytes, size: int | None) -> None:
        with pytest.raises(IntegrityError, match="are others; the source changed"):
            with ArchiveWriter(path, size) as writer:
                writer.add(BLOB, BytesContent(data))
        assert files(path.parent) == {}

    def test_a_large_blob_with_a_wrong_byte(self, path: Path) -> None:
        good = os.urandom(3 * 1024 * 1024)
        bad = good[:-1] + bytes([good[-1] ^ 1])
        with pytest.raises(IntegrityError):
            with ArchiveWriter(path, 64 * 1024) as writer:
                writer.add(Descriptor.of(good, LAYER), BytesContent(bad))
        with ArchiveWriter(path, 64 * 1024) as writer:
            writer.add(Descriptor.of(good, LAYER), BytesContent(good))
            writer.publish(ImageIndex.of([]))
        assert read(ArchiveStore(path), Descriptor.of(good, LAYER)) == good

    def test_bytes_are_told(self, path: Path) -> None:
        told: list[int] = []
        with ArchiveWriter(path) as writer:
            writer.add(BLOB, BytesContent(b"abc"), told.append)
            writer.add(BLOB, BytesContent(b"abc"), told.append)
        assert sum(told) == 3

    @pytest.mark.parametrize("name", ["models.tar", "models.tar.001", "models.tar.sha256"])
    def test_what_is_there_is_kept(self, path: Path, name: str) -> None:
        (path.parent / name).write_bytes(b"old")
        with pytest.raises(
            DestinationError, match=rf"{name}: it exists; choose another name, or replace it with --overwrite"
        ):
            ArchiveWriter(path, 64 * 1024)
        assert files(path.parent) == {name: b"old"}

    def test_a_list_of_its_owner_is_let_be(self, path: Path) -> None:
        (path.parent / "models.tar.sha256").write_bytes(b"of somebody else")
        for rules in (TargetRules(), OVERWRITE):
            write(path, {A: sample(b"one")}, rules=rules)
        assert files(path.parent)["models.tar.sha256"] == b"of somebody else"

    def test_replaced_by_force(self, path: Path) -> None:
        big, small = sample(b"x" * 300_000), sample(b"small")
        write(path, {A: big}, size=64 * 1024)
        write(path, {A: small}, size=64 * 1024, rules=OVERWRITE)
        assert list(files(path.parent)) == ["models.tar.001", "models.tar.sha256"]
        small.assert_in(ArchiveStore(path), A)
        write(path, {A: big}, rules=OVERWRITE)
        assert list(files(path.parent)) == ["models.tar"]
        big.assert_in(ArchiveStore(path), A)

    def test_force_keeps_the_old_one_until_the_end(self, path: Path) -> None:
        write(path, {A: sample(b"old")})
        before = files(path.parent)
        with ArchiveWriter(path, rules=OVERWRITE) as writer:
            writer.add(BLOB, BytesContent(b"abc"))
        assert files(path.parent) == before

    def test_two_writers(self, path: Path) -> None:
        with ArchiveWriter(path, 64 * 1024) as first:
            for size in (None, 64 * 1024):
                with pytest.raises(DestinationError, match="another process is writing"):
                    ArchiveWriter(path, size)
            first.add(BLOB, BytesContent(b"abc"))
            first.publish(ImageIndex.of([]))
        assert read(ArchiveStore(path), BLOB) == b"abc"

    def test_what_a_killed_writer_left_is_removed(self, path: Path) -> None:
        for name in (".models.tar", ".models.tar.001", ".models.tar.007"):
            (path.parent / f"{name}.ocibridge-pack.part").write_bytes(b"left" * 100)
        write(path, {A: sample(b"one")})
        assert list(files(path.parent)) == ["models.tar"]
        sample(b"one").assert_in(ArchiveStore(path), A)

    def test_disk_full(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DestinationError, match=r"cannot write .*models\.tar: no space left on device"):
            write(path, {A: sample(b"one")})
        assert files(path.parent) == {}

    def test_folder_that_is_not_there(self, path: Path) -> None:
        with pytest.raises(DestinationError, match="cannot write"):
            ArchiveWriter(path.parent / "absent" / "x.tar")

    def test_no_thread_is_left(self, path: Path) -> None:
        with suppress(DestinationError):
            ArchiveWriter(path.parent / "absent" / "x.tar")
        write(path, {A: sample(b"x" * 1_000_000)})
        assert [each.name for each in threading.enumerate() if each.name.startswith("ocibridge")] == []


class TestReading:
    def test_referrers(self, path: Path) -> None:
        model, other = sample(b"one"), sample(b"two")
        kinds = ("application/vnd.example.signature", "application/vnd.example.sbom")
        about = [
            sample(
                kind.encode(),
                subject=Descriptor.of(model.manifest, "application/vnd.oci.image.manifest.v1+json"),
                artifact_type=kind,
            )
            for kind in kinds
        ]
        write(path, {A: model, B: other}, *about)
        store = ArchiveStore(path)
        assert [each.digest for each in store.referrers(model.digest)] == sorted(each.digest for each in about)
        assert [each.digest for each in store.referrers(model.digest, kinds[1])] == [about[1].digest]
        assert store.referrers(other.digest) == []

    def test_entries_without_blobs_are_no_referrers(self, path: Path) -> None:
        with ArchiveWriter(path) as writer:
            writer.publish(ImageIndex.of([entry(sample(b"elsewhere"), A)]))
        store = ArchiveStore(path)
        assert store.referrers(BLOB.digest) == []
        with pytest.raises(NotFound, match="has no manifest"):
            store.resolve(A)

    def test_a_tag_alone_where_it_is_clear(self, path: Path) -> None:
        one, two = sample(b"one"), sample(b"two")
        write(path, {"example.com/a:v1": one, "example.com/b:v2": two, "v3": two})
        store = open_archive(path)
        assert [store.resolve(tag).digest for tag in ("v1", "v2", "v3")] == [one.digest, two.digest, two.digest]
        with pytest.raises(NotFound, match="has no tag 'v4'"):
            store.resolve("v4")

    def test_a_tag_alone_where_it_is_not(self, path: Path) -> None:
        write(path, {A: sample(b"one"), B: sample(b"two")})
        with pytest.raises(
            NotFound, match=r"has the tag 'v1' in 2 repositories; name one of them: .*:example\.com/a:v1"
        ):
            open_archive(path).resolve("v1")

    @pytest.mark.parametrize("method", ["push_blob", "push_manifest"])
    def test_nothing_is_added(self, path: Path, method: str) -> None:
        write(path, {A: sample(b"one")}, size=64 * 1024)
        arguments: dict[str, tuple[object, ...]] = {
            "push_blob": (BLOB, BytesContent(b"abc")),
            "push_manifest": (sample().manifest, "", "v1"),
        }
        with pytest.raises(StoreError, match="cannot be added to"):
            getattr(ArchiveStore(path), method)(*arguments[method])

    def test_resume(self, path: Path) -> None:
        data = bytes(range(256)) * 1000
        write(path, {A: sample(data)}, size=64 * 1024)
        with ArchiveStore(path).resume_blob(Descriptor.of(data, LAYER), 100_000) as reader:
            assert reader.readall() == data[100_000:]


class TestNamed:
    def test_tags_of_a_repository(self, path: Path) -> None:
        one, two = sample(b"one"), sample(b"two")
        write(path, {"example.com/a:v1": one, "example.com/a:v2": two, "example.com/a/b:v3": one})
        store = RepositoryView(ArchiveStore(path), "example.com/a")
        assert store.tags() == ["v1", "v2"]
        one.assert_in(store, "v1")
        two.assert_in(store, two.digest)
        with pytest.raises(NotFound):
            store.resolve("v3")

    def test_pushing_into_a_layout(self, tmp_path: Path) -> None:
        layout = LayoutStore(tmp_path / "layout", create=True)
        sample(b"one").push(RepositoryView(layout, "example.com/a"), "v1")
        sample(b"two").push(RepositoryView(layout, "example.com/b"), "v1")
        sample(b"three").push(RepositoryView(layout, ""), "v1")
        assert LayoutStore(tmp_path / "layout").tags() == ["example.com/a:v1", "example.com/b:v1", "v1"]

    def test_blobs_are_those_of_the_layout(self, tmp_path: Path) -> None:
        layout = LayoutStore(tmp_path / "layout", create=True)
        one, two = RepositoryView(layout, "example.com/a"), RepositoryView(layout, "example.com/b")
        sample(b"one").push(one, "v1")
        blob = Descriptor.of(b"one", LAYER)
        assert two.mount_blob(blob, one)
        assert not two.mount_blob(BLOB, one)
        assert not two.mount_blob(blob, RepositoryView(LayoutStore(tmp_path / "other", create=True), "example.com/a"))

    def test_blobs_from_elsewhere(self, path: Path, tmp_path: Path) -> None:
        with LayoutStore(tmp_path / "layout", create=True) as other:
            other.push_blob(BLOB, BytesContent(b"abc"))
            write(path, {A: sample(b"one")})
            store = RepositoryView(ArchiveStore(path), "example.com/a", lambda blob: other if blob == BLOB else None)
            assert not store.has_blob(BLOB)
            assert read(store, BLOB) == b"abc"
            with pytest.raises(NotFound):
                read(store, Descriptor.of(b"x", LAYER))


class TestOpening:
    @pytest.mark.parametrize("size", [None, 64 * 1024])
    def test_by_repository(self, path: Path, size: int | None) -> None:
        one, two = sample(b"one"), sample(b"two")
        write(path, {"127.0.0.1:5000/a:v1": one, B: two}, size=size)
        one.assert_in(open_archive(Path(f"{path}:127.0.0.1:5000/a")), "v1")
        two.assert_in(open_archive(Path(f"{path}:example.com/b")), "v1")
        two.assert_in(open_archive(path), B)

    def test_a_colon_in_the_file_name(self, tmp_path: Path) -> None:
        model = sample(b"one")
        write(tmp_path / "a:b.tar", {A: model})
        model.assert_in(open_archive(tmp_path / "a:b.tar"), A)
        model.assert_in(open_archive(tmp_path / "a:b.tar:example.com/a"), "v1")

    @pytest.mark.parametrize("rest", ["", ":example.com/a:v1", ":not a repository", ":x"])
    def test_absent(self, path: Path, rest: str) -> None:
        if rest:
            write(path, {A: sample(b"one")})
        with pytest.raises(NotFound, match="there is no archive"):
            open_archive(Path(f"{path}{rest}"))


def test_a_content_that_fails(path: Path) -> None:
    class Failing(BytesContent):
        def open(self, offset: int = 0) -> io.RawIOBase:
            raise StoreError("gone")

    content: Content = Failing(b"abc")
    with pytest.raises(StoreError, match="gone"):
        with ArchiveWriter(path) as writer:
            writer.add(BLOB, content)
    assert files(path.parent) == {}
