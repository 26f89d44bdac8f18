# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import DestinationError, FormatError, IntegrityError, LimitError, NotFound, OcibridgeError
from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, Index
from ocibridge.settings import Limits
from ocibridge.stores.layout import LayoutStore

from .samples import LAYER, files, read, sample


@pytest.fixture
def store(tmp_path: Path) -> LayoutStore:
    return LayoutStore(tmp_path / "layout", create=True)


def index_of(store: LayoutStore) -> dict[str, Any]:
    document = json.loads((store.path / "index.json").read_bytes())
    assert isinstance(document, dict)
    return document


class TestOpening:
    def test_absent(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="there is no layout"):
            LayoutStore(tmp_path / "absent")
        assert not list(tmp_path.iterdir())

    def test_not_a_layout(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="no file oci-layout"):
            LayoutStore(tmp_path)

    def test_index_missing(self, store: LayoutStore) -> None:
        (store.path / "index.json").unlink()
        with pytest.raises(FormatError, match=r"no file index\.json"):
            LayoutStore(store.path)

    def test_other_version(self, store: LayoutStore) -> None:
        (store.path / "oci-layout").write_text('{"imageLayoutVersion":"2.0.0"}')
        with pytest.raises(FormatError, match="imageLayoutVersion"):
            LayoutStore(store.path)

    def test_nothing_is_made_in_a_folder_of_another_version(self, tmp_path: Path) -> None:
        (tmp_path / "oci-layout").write_text('{"imageLayoutVersion":"2.0.0"}')
        with pytest.raises(FormatError, match="imageLayoutVersion"):
            LayoutStore(tmp_path, create=True)
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".ocibridge")] == ["oci-layout"]

    def test_create_makes_an_empty_layout_with_parents(self, tmp_path: Path) -> None:
        store = LayoutStore(tmp_path / "a" / "b", create=True)
        assert store.tags() == []
        assert files(store.path) == {
            "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
            "index.json": b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}',
        }

    def test_create_refuses_a_folder_with_other_things(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("x")
        with pytest.raises(FormatError, match="neither empty nor"):
            LayoutStore(tmp_path, create=True)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_create_over_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(DestinationError, match="cannot write"):
            LayoutStore(tmp_path / "file", create=True)

    def test_create_keeps_a_layout(self, store: LayoutStore) -> None:
        sample().push(store, "v1")
        before = files(store.path)
        LayoutStore(store.path, create=True)
        assert files(store.path) == before


class TestPushing:
    def test_bytes_of_the_index(self, store: LayoutStore) -> None:
        descriptor = sample().push(store, "v1")
        assert (store.path / "index.json").read_bytes() == (
            '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{'
            f'"mediaType":"{MEDIA_TYPE_MANIFEST}","digest":"{descriptor.digest}","size":{descriptor.size},'
            '"annotations":{"org.opencontainers.image.ref.name":"v1"},"artifactType":"application/vnd.example.model"}]}'
        ).encode()

    def test_order_of_pushes_does_not_matter(self, tmp_path: Path) -> None:
        pushes = [(sample(b"a"), "v2"), (sample(b"b"), "v1"), (sample(b"c"), None), (sample(b"d"), None)]
        stores = [LayoutStore(tmp_path / name, create=True) for name in ("there", "back")]
        for store, order in zip(stores, (pushes, pushes[::-1]), strict=True):
            for model, tag in order:
                model.push(store, tag)
        assert files(stores[0].path) == files(stores[1].path)

    def test_nothing_else_is_left(self, store: LayoutStore) -> None:
        sample().push(store, "v1")
        assert sorted(path.name for path in store.path.iterdir()) == ["blobs", "index.json", "oci-layout"]

    def test_retagging_frees_the_old_manifest(self, store: LayoutStore) -> None:
        old, new = sample(b"old"), sample(b"new")
        old.push(store, "v1")
        new.push(store, "v1")
        new.assert_in(store, "v1")
        old.assert_in(store, old.digest)
        assert [entry.get("annotations") for entry in index_of(store)["manifests"]] == [
            {"org.opencontainers.image.ref.name": "v1"},
            None,
        ]

    @pytest.mark.parametrize("tags", [(None, None), (None, "v1"), ("v1", None), ("v1", "v1")])
    def test_one_manifest_is_listed_once(self, store: LayoutStore, tags: tuple[str | None, str | None]) -> None:
        for tag in tags:
            sample().push(store, tag)
        assert len(index_of(store)["manifests"]) == 1

    def test_unknown_fields_survive(self, store: LayoutStore) -> None:
        model = sample(b"old")
        model.push(store, "v1")
        document = index_of(store)
        del document["mediaType"]
        document["org.example"] = {"kept": [1]}
        document["manifests"][0] |= {"platform": {"os": "linux"}, "x": 1}
        document["manifests"][0]["annotations"]["io.example"] = "y"
        (store.path / "index.json").write_text(json.dumps(document))
        sample(b"new").push(store, "v2")
        model.push(store, "v1")
        after = index_of(store)
        assert after["org.example"] == {"kept": [1]}
        assert "mediaType" not in after
        assert after["manifests"][0] == document["manifests"][0]

    def test_wrong_digest(self, store: LayoutStore) -> None:
        before = files(store.path)
        with pytest.raises(IntegrityError, match="sha256:"):
            store.push_blob(Descriptor.of(b"abc", LAYER), BytesContent(b"abd"))
        assert files(store.path) == before

    @pytest.mark.parametrize("data", [b"ab", b"abcd", b""])
    def test_wrong_size(self, store: LayoutStore, data: bytes) -> None:
        before = files(store.path)
        with pytest.raises(IntegrityError, match="another size"):
            store.push_blob(Descriptor.of(b"abc", LAYER), BytesContent(data))
        assert files(store.path) == before

    @pytest.mark.parametrize("data", [b"ab", b"abcd"])
    def test_size_that_is_not_the_one_announced(self, store: LayoutStore, data: bytes) -> None:
        class Liar(BytesContent):
            @property
            def size(self) -> int:
                return 3

        with pytest.raises(IntegrityError, match="another size"):
            store.push_blob(Descriptor.of(b"abc", LAYER), Liar(data))
        assert not list(store.path.rglob("*.part"))

    def test_blob_that_is_there_is_not_written_again(self, store: LayoutStore) -> None:
        descriptor = Descriptor.of(b"abc", LAYER)
        moved: list[int] = []
        for _ in range(2):
            store.push_blob(descriptor, BytesContent(b"abc"), moved.append)
        assert moved == [3]

    def test_truncated_blob_is_replaced(self, store: LayoutStore) -> None:
        descriptor = Descriptor.of(b"abc", LAYER)
        (store.path / "blobs" / "sha256" / descriptor.digest[7:]).write_bytes(b"a")
        assert not store.has_blob(descriptor)
        store.push_blob(descriptor, BytesContent(b"abc"))
        assert read(store, descriptor) == b"abc"

    def test_disk_full(self, store: LayoutStore, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        model = sample()
        model.push(store, "v1")
        before = files(store.path)
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DestinationError, match="no space left on device; free some space"):
            sample(b"other").push(store, "v1")
        assert files(store.path) == before

    @pytest.mark.parametrize("blobs_fail", [True, False])
    def test_failed_rename(self, store: LayoutStore, monkeypatch: pytest.MonkeyPatch, blobs_fail: bool) -> None:
        genuine = Path.replace

        def replace(path: Path, target: Path) -> Path:
            if (target.name == "index.json") is not blobs_fail:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return genuine(path, target)

        monkeypatch.setattr(Path, "replace", replace)
        with pytest.raises(DestinationError, match="choose a target that can be written"):
            sample().push(store, "v1")
        assert store.tags() == []
        assert not list(store.path.glob(".ocibridge*"))

    def test_umask_decides_on_modes(self, tmp_path: Path) -> None:
        old = os.umask(0o027)
        try:
            store = LayoutStore(tmp_path / "layout", create=True)
            sample().push(store, "v1")
        finally:
            os.umask(old)
        modes = {path.stat().st_mode & 0o777 for path in store.path.rglob("*") if path.is_file()}
        assert modes == {0o640}


class TestReading:
    def test_unknown_tag_names_the_tags(self, store: LayoutStore) -> None:
        for number in range(12):
            sample(b"%d" % number).push(store, f"v{number:02}")
        with pytest.raises(NotFound, match=r"no tag 'latest'; tags there: v00, .*v07 \(of 12\)$"):
            store.resolve("latest")

    def test_single_untagged_manifest_is_named(self, store: LayoutStore) -> None:
        digest = sample().push(store, None).digest
        with pytest.raises(NotFound, match=f"it has no tags; .*{digest}"):
            store.resolve("latest")

    def test_empty(self, store: LayoutStore) -> None:
        with pytest.raises(NotFound, match="it is empty"):
            store.resolve("latest")

    @pytest.mark.parametrize("digest", ["sha256:../../etc/passwd", "sha256:" + "A" * 64, "sha256:"])
    def test_digest_that_is_none(self, store: LayoutStore, digest: str) -> None:
        with pytest.raises(FormatError, match="not a digest"):
            store.resolve(digest)

    def test_manifest_that_is_not_in_the_index(self, store: LayoutStore) -> None:
        model = sample()
        store.push_blob(Descriptor.of(model.manifest, MEDIA_TYPE_MANIFEST), BytesContent(model.manifest))
        assert store.fetch_manifest(model.digest)[1] == model.manifest

    @pytest.mark.parametrize("by_tag", [True, False])
    def test_damaged_manifest(self, store: LayoutStore, by_tag: bool) -> None:
        digest = sample().push(store, "v1").digest
        (store.path / "blobs" / "sha256" / digest[7:]).write_bytes(b"{}")
        with pytest.raises(IntegrityError, match="other bytes"):
            store.resolve("v1" if by_tag else digest)

    def test_large_manifest(self, store: LayoutStore) -> None:
        sample().push(store, "v1")
        with pytest.raises(LimitError):
            LayoutStore(store.path, Limits(manifest=10)).resolve("v1")

    def test_large_index(self, store: LayoutStore) -> None:
        sample().push(store, "v1")
        with pytest.raises(LimitError):
            LayoutStore(store.path, Limits(metadata=50)).tags()

    def test_damaged_blobs(self, store: LayoutStore) -> None:
        model = sample(b"abc")
        model.push(store, "v1")
        descriptor = model.blobs[1][0]
        path = store.path / "blobs" / "sha256" / descriptor.digest[7:]
        path.write_bytes(b"abd")
        with pytest.raises(IntegrityError, match="other bytes"):
            read(store, descriptor)
        path.write_bytes(b"ab")
        with pytest.raises(IntegrityError, match="2 bytes instead of 3"):
            read(store, descriptor)
        path.unlink()
        with pytest.raises(NotFound, match="no blob"):
            read(store, descriptor)
        path.mkdir()
        with pytest.raises(NotFound, match="no blob"):
            read(store, descriptor)

    def test_tag_at_two_manifests(self, store: LayoutStore) -> None:
        sample(b"a").push(store, "v1")
        sample(b"b").push(store, "v2")
        path = store.path / "index.json"
        path.write_text(path.read_text().replace("v2", "v1"))
        with pytest.raises(FormatError, match="the tag 'v1' at 2 manifests"):
            store.resolve("v1")

    def test_digest_of_another_algorithm(self, store: LayoutStore) -> None:
        sample().push(store, "v1")
        path = store.path / "index.json"
        path.write_text(path.read_text().replace("sha256:", "sha512:"))
        with pytest.raises(FormatError, match="only sha256 digests"):
            store.resolve("v1")


class TestReferrers:
    def test_an_index_can_refer(self, store: LayoutStore) -> None:
        subject = sample().push(store, "v1")
        index = Index(manifests=[], subject=subject, artifact_type="application/x.list")
        store.push_manifest(index.to_json(), MEDIA_TYPE_INDEX, None)
        assert [each.artifact_type for each in store.referrers(subject.digest)] == ["application/x.list"]

    def test_manifests_kept_elsewhere_are_passed_over(self, store: LayoutStore) -> None:
        subject = sample().push(store, "v1")
        referrer = sample(b"x", subject=subject).push(store, None)
        (store.path / "blobs" / "sha256" / referrer.digest[7:]).unlink()
        assert store.referrers(subject.digest) == []


PUSHER = """
import sys
from ocibridge.stores.layout import LayoutStore
from tests.stores.samples import sample
for number in range(15):
    with LayoutStore(sys.argv[1], create=True) as store:
        sample(sys.argv[2].encode(), b"%d" % number).push(store, f"{sys.argv[2]}-{number:02}")
"""


def test_processes_do_not_lose_tags_of_each_other(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    names = ["a", "b", "c"]
    command = [sys.executable, "-c", PUSHER, str(tmp_path / "layout")]
    running = [subprocess.Popen([*command, name], cwd=root) for name in names]
    while not (tmp_path / "layout" / "index.json").exists() and running[0].poll() is None:
        time.sleep(0.01)
    while any(process.poll() is None for process in running):
        LayoutStore(tmp_path / "layout").tags()  # a reader sees one state or another, never half of one
    assert [process.wait(100) for process in running] == [0, 0, 0]
    store = LayoutStore(tmp_path / "layout")
    assert store.tags() == [f"{name}-{number:02}" for name in names for number in range(15)]
    assert sorted(path.name for path in store.path.iterdir()) == ["blobs", "index.json", "oci-layout"]


ENTRY = st.dictionaries(
    st.sampled_from(["mediaType", "digest", "size", "annotations", "x"]),
    st.one_of(
        st.none(),
        st.text(),
        st.integers(),
        st.floats(),
        st.just(MEDIA_TYPE_MANIFEST),
        st.just("sha256:" + "0" * 64),
        st.dictionaries(st.just("org.opencontainers.image.ref.name"), st.text() | st.integers()),
    ),
)
INDEX_BYTES = st.binary() | st.fixed_dictionaries(
    {"schemaVersion": st.just(2) | st.integers(), "manifests": st.lists(ENTRY) | st.integers()}
).map(lambda document: json.dumps(document).encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=INDEX_BYTES)
def test_any_index_ends_in_a_result_or_our_error(store: LayoutStore, data: bytes) -> None:
    (store.path / "index.json").write_bytes(data)
    for attempt in (
        store.tags,
        lambda: store.resolve("v1"),
        lambda: store.resolve("sha256:" + "0" * 64),
        lambda: store.referrers("sha256:" + "0" * 64),
        lambda: sample().push(store, "v1"),
    ):
        with suppress(OcibridgeError):
            attempt()


def test_index_with_a_lone_surrogate(store: LayoutStore) -> None:
    (store.path / "index.json").write_bytes(b'{"schemaVersion":2,"manifests":[],"x":"\\ud800"}')
    with pytest.raises(FormatError, match="cannot be written again"):
        sample().push(store, "v1")
