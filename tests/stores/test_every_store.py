# SPDX-License-Identifier: Apache-2.0
"""What holds for every store: a registry, a layout, an archive and one in memory."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import FormatError, IntegrityError, LimitError, NotFound, OcibridgeError, StoreError
from ocibridge.io.content import BytesContent
from ocibridge.io.readers import Reader
from ocibridge.oci import (
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    ArchiveReference,
    Descriptor,
    Index,
    LayoutReference,
    Reference,
    RegistryReference,
)
from ocibridge.stores.base import Store, can_mount
from ocibridge.stores.content import BlobContent
from ocibridge.stores.memory import MemoryStore
from ocibridge.stores.opening import open_store
from ocibridge.stores.registry import Hosts
from ocibridge.stores.verified import VerifiedStore

from ..registry import RegistryServer
from .samples import LAYER, Sample, read, sample

KINDS = ["registry", "layout", "archive", "memory"]
MODEL, OTHER = sample(b"one"), sample(b"two")
BLOB = Descriptor.of(b"abc", LAYER)
MakeStore = Callable[[], Store]


class Counted(BytesContent):
    """Bytes that count how often they are opened."""

    opened = 0

    def open(self, offset: int = 0) -> Reader:
        self.opened += 1
        return super().open(offset)


class Stream:
    """A blob in pieces, whose digest is known at the end."""

    label = "the stream"

    def __init__(self, *pieces: bytes, size: int | None = None, fails: bool = False) -> None:
        self.size = size
        self._pieces = iter(pieces)
        self._hash, self._count = hashlib.sha256(), 0
        self._fails = fails

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> bytes:
        piece = next(self._pieces)
        self._hash.update(piece)
        self._count += len(piece)
        return piece

    def finish(self) -> Descriptor:
        for _ in self:
            pass
        if self._fails:
            raise IntegrityError("not what was promised")
        return Descriptor(media_type=LAYER, digest="sha256:" + self._hash.hexdigest(), size=self._count)


@pytest.fixture(params=KINDS)
def make(
    request: pytest.FixtureRequest, registry: RegistryServer, repository: str, tmp_path: Path
) -> Iterator[MakeStore]:
    """Makes new stores of one kind."""
    numbers = itertools.count()
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())

        def make() -> Store:
            number = next(numbers)
            places: dict[str, Reference] = {
                "registry": RegistryReference(registry.host, f"{repository}/{number}"),
                "layout": LayoutReference(tmp_path / f"layout{number}"),
                "archive": ArchiveReference(tmp_path / f"archive{number}.tar"),
            }
            if request.param == "memory":
                return stack.enter_context(MemoryStore(scope=repository))
            return stack.enter_context(open_store(places[request.param], hosts=hosts, create=True))

        yield make


@pytest.fixture
def store(make: MakeStore) -> Store:
    return make()


def tags(store: Store) -> Sequence[str]:
    """The tags; a registry may say that there is no such repository yet."""
    try:
        return store.tags()
    except NotFound:
        return []


class TestManifests:
    def test_a_round_trip(self, store: Store) -> None:
        model = sample(b"one" * 1000, b"", b"x" * 512)
        pushed = model.push(store, "v1")
        assert pushed == Descriptor.of(model.manifest, MEDIA_TYPE_MANIFEST)
        model.assert_in(store, "v1")
        model.assert_in(store, pushed.digest)
        for version in ("v1", pushed.digest):
            assert store.resolve(version) == store.head(version) == store.fetch_manifest(version)[0] == pushed
        assert store.tags() == ["v1"]

    @pytest.mark.parametrize("version", ["v2", OTHER.digest])
    def test_what_is_not_there(self, store: Store, version: str) -> None:
        MODEL.push(store, "v1")
        assert store.head(version) is None
        for method in (store.resolve, store.fetch_manifest):
            with pytest.raises(NotFound):
                method(version)

    def test_an_empty_store(self, store: Store) -> None:
        assert store.is_new() in (True, False)
        assert tags(store) == []
        assert store.head("v1") is None
        with pytest.raises(NotFound):
            store.resolve("v1")

    def test_a_tag_can_be_moved(self, store: Store) -> None:
        MODEL.push(store, "v1")
        MODEL.push(store, "stable")
        OTHER.push(store, "v1")
        OTHER.assert_in(store, "v1")
        MODEL.assert_in(store, "stable")
        MODEL.assert_in(store, MODEL.digest)
        assert store.tags() == ["stable", "v1"]

    def test_without_a_tag(self, store: Store) -> None:
        MODEL.push(store, None)
        MODEL.assert_in(store, MODEL.digest)
        assert tags(store) == []

    def test_tags_are_sorted(self, store: Store) -> None:
        for tag in ("v2", "a", "v10", "B"):
            MODEL.push(store, tag)
        assert store.tags() == ["B", "a", "v10", "v2"]

    def test_an_index_keeps_its_bytes(self, store: Store) -> None:
        child = MODEL.push(store, None)
        data = Index(manifests=[child]).to_json()
        assert store.push_manifest(data, MEDIA_TYPE_INDEX, "all").media_type == MEDIA_TYPE_INDEX
        assert store.fetch_manifest("all") == (Descriptor.of(data, MEDIA_TYPE_INDEX), data)

    def test_other_bytes_are_refused(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        MODEL.push(store, "v1")
        monkeypatch.setattr(store, "_read_manifest", lambda _: (OTHER.manifest, None))
        with pytest.raises(IntegrityError, match="returned sha256"):
            store.fetch_manifest(MODEL.digest)

    def test_a_large_one_is_refused(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(store, "_read_manifest", lambda _: (b" " * (store.limits.manifest + 1), None))
        with pytest.raises(LimitError):
            store.fetch_manifest("v1")

    def test_a_batch(self, store: Store) -> None:
        with store.batch():
            MODEL.push(store, "v1")
            MODEL.assert_in(store, "v1")
            OTHER.push(store, "v2")
        assert store.tags() == ["v1", "v2"]


class TestBlobs:
    def test_there_or_not(self, store: Store) -> None:
        assert not store.has_blob(BLOB)
        for method in (store.open_blob, lambda blob: store.resume_blob(blob, 0)):
            with pytest.raises(NotFound), method(BLOB) as reader:
                reader.read()
        with pytest.raises(NotFound):
            store.read_blob(BLOB, 3)
        store.push_blob(BLOB, BytesContent(b"abc"))
        assert store.has_blob(BLOB)
        assert store.read_blob(BLOB, 3) == read(store, BLOB) == b"abc"

    @pytest.mark.parametrize("data", [b"abd", b"ab", b"abcd", b""])
    def test_wrong_bytes_are_not_kept(self, store: Store, data: bytes) -> None:
        told: list[int] = []
        with pytest.raises(OcibridgeError):
            store.push_blob(BLOB, BytesContent(data), told.append)
        assert not store.has_blob(BLOB)
        store.push_blob(BLOB, BytesContent(b"abc"))
        assert read(store, BLOB) == b"abc"

    def test_what_is_told_of_bytes(self, store: Store) -> None:
        told: list[int] = []
        store.push_blob(BLOB, BytesContent(b"abc"), told.append)
        assert sum(told) == 3

    def test_a_failing_source(self, store: Store) -> None:
        class Failing(BytesContent):
            def open(self, offset: int = 0) -> Reader:
                raise StoreError("gone")

        with pytest.raises(StoreError, match="gone"):
            store.push_blob(BLOB, Failing(b"abc"))
        MODEL.push(store, "v1")
        MODEL.assert_in(store, "v1")
        assert not store.has_blob(BLOB)

    def test_what_is_there_is_not_read_again(self, store: Store) -> None:
        content = Counted(b"abc")
        store.push_blob(BLOB, content)
        before = content.opened
        if not store.has_blob(BLOB):
            store.push_blob(BLOB, content)
        assert content.opened == before

    def test_too_large_to_read_at_once(self, store: Store) -> None:
        store.push_blob(BLOB, BytesContent(b"abc"))
        with pytest.raises(LimitError):
            store.read_blob(BLOB, 2)

    @pytest.mark.parametrize("offset", [0, 1, 2, 3])
    def test_from_an_offset(self, store: Store, offset: int) -> None:
        store.push_blob(BLOB, BytesContent(b"abc"))
        for opened in (store.resume_blob(BLOB, offset), BlobContent(store, BLOB).open(offset)):
            with opened as reader:
                assert reader.readall() == b"abc"[offset:]

    @pytest.mark.parametrize("given", [b"abd", b"ab", b"abcd", b""])
    def test_damage_is_found(self, store: Store, given: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        store.push_blob(BLOB, BytesContent(b"abc"))
        monkeypatch.setattr(store, "_open_blob", lambda _, offset: BytesContent(given).open(offset))
        with pytest.raises(IntegrityError):
            read(store, BLOB)
        with pytest.raises(IntegrityError):
            store.read_blob(BLOB, 3)

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.binary(max_size=3000), offset=st.integers(0, 3000))
    def test_any_bytes(self, store: Store, data: bytes, offset: int) -> None:
        descriptor = Descriptor.of(data, LAYER)
        if not store.has_blob(descriptor):
            store.push_blob(descriptor, BytesContent(data))
        assert read(store, descriptor) == data
        with store.resume_blob(descriptor, min(offset, len(data))) as reader:
            assert reader.readall() == data[offset:]


class TestStreams:
    @pytest.mark.parametrize("size", [6, None])
    def test_a_blob_of_unknown_digest(self, store: Store, size: int | None) -> None:
        told: list[int] = []
        stream = Stream(b"abc", b"def", size=size)
        stored = store.stream_blob(stream, None, told.append)
        assert stored == store.capabilities.streams
        assert stream.finish() == Descriptor.of(b"abcdef", LAYER)
        assert store.has_blob(Descriptor.of(b"abcdef", LAYER)) == stored
        assert sum(told) == (6 if stored else 0)

    def test_one_that_fails(self, store: Store) -> None:
        if store.capabilities.streams:
            with pytest.raises(IntegrityError, match="promised"):
                store.stream_blob(Stream(b"abc", size=3, fails=True), None)
        assert not store.has_blob(BLOB)
        assert tags(store) == []


class TestMounts:
    def test_within_a_scope(self, make: MakeStore) -> None:
        source, target = make(), make()
        source.push_blob(BLOB, BytesContent(b"abc"))
        mounted = target.mount_blob(BLOB, source)
        assert mounted == target.has_blob(BLOB) == can_mount(source, target)
        if mounted:
            assert read(target, BLOB) == b"abc"

    def test_from_the_store_itself(self, store: Store) -> None:
        assert can_mount(store, store)
        assert not store.mount_blob(BLOB, store)
        store.push_blob(BLOB, BytesContent(b"abc"))
        assert store.mount_blob(BLOB, store)

    def test_from_a_store_of_another_kind(self, store: Store) -> None:
        other = MemoryStore()
        other.push_blob(BLOB, BytesContent(b"abc"))
        assert not can_mount(other, store)
        assert not store.mount_blob(BLOB, other)
        assert not store.has_blob(BLOB)


class TestReferrers:
    def test_by_subject_and_type(self, store: Store) -> None:
        subject = MODEL.push(store, "v1")
        signature, sbom = (
            sample(
                word.encode(), subject=subject, artifact_type=f"application/vnd.example.{word}", annotations={"a": word}
            )
            for word in ("signature", "sbom")
        )
        for each in (signature, sbom):
            each.push(store, None)
        assert {each.digest for each in store.referrers(subject.digest)} == {signature.digest, sbom.digest}
        (found,) = store.referrers(subject.digest, "application/vnd.example.sbom")
        assert (found.digest, found.size, found.annotations) == (sbom.digest, len(sbom.manifest), {"a": "sbom"})
        assert list(store.referrers(signature.digest)) == []
        assert list(store.referrers(OTHER.digest)) == []

    def test_one_that_comes_later(self, store: Store) -> None:
        subject = MODEL.push(store, "v1")
        assert list(store.referrers(subject.digest)) == []
        late = sample(b"late", subject=subject)
        late.push(store, "sig")
        assert [each.digest for each in store.referrers(subject.digest)] == [late.digest]


class TestDeleting:
    def test_a_tag_alone(self, store: Store) -> None:
        for tag in ("v1", "v2"):
            MODEL.push(store, tag)
        OTHER.push(store, "v3")
        store.delete("v1")
        assert store.tags() == ["v2", "v3"]
        MODEL.assert_in(store, "v2")
        with pytest.raises(NotFound):
            store.delete("v1")

    def test_a_manifest_with_its_tags(self, store: Store) -> None:
        MODEL.push(store, "v1")
        OTHER.push(store, "v3")
        store.delete(MODEL.digest)
        assert "v1" not in store.tags()
        assert store.head("v1") is None
        OTHER.assert_in(store, "v3")
        with pytest.raises(NotFound):
            store.delete(sample(b"never").digest)


class TestConcurrency:
    def test_many_threads(self, store: Store) -> None:
        shared = b"shared" * 100
        models = [sample(b"%d" % number, shared) for number in range(12)]

        # Registries that keep links in plain files give half of one to a reader while another request writes it.
        sample(shared).push(store, None)

        def push(item: tuple[int, Sample]) -> None:
            for blob, data in item[1].blobs:
                if not store.has_blob(blob):
                    store.push_blob(blob, BytesContent(data))
            store.push_manifest(item[1].manifest, MEDIA_TYPE_MANIFEST, f"v{item[0]}")

        with ThreadPoolExecutor(8 if store.capabilities.parallel else 1) as pool:
            list(pool.map(push, enumerate(models)))
        assert len(store.tags()) == len(models)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda item: item[1].assert_in(store, f"v{item[0]}"), enumerate(models)))


class TestState:
    def test_a_new_store_is_known_as_one(self, store: Store) -> None:
        said = store.is_new()
        MODEL.push(store, "v1")
        assert not store.is_new()
        assert said or not store.capabilities.streams

    def test_it_is_there_for_the_next_one(self, store: Store) -> None:
        assert isinstance(store, VerifiedStore)
        assert store.name
        assert store.capabilities.mount_scope
        assert list(store.warnings) == []
        with store as entered:
            assert entered is store

    @pytest.mark.parametrize("data", [b"[]", b"{", b""])
    def test_a_manifest_that_is_none_gets_no_tag(self, store: Store, data: bytes) -> None:
        with pytest.raises((FormatError, StoreError)):
            store.push_manifest(data, MEDIA_TYPE_MANIFEST, "v1")
        assert tags(store) == []


def test_a_name_of_its_own() -> None:
    assert len({MemoryStore().name for _ in range(3)}) == 3
    assert MemoryStore("here").name == "here"
