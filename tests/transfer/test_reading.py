# SPDX-License-Identifier: Apache-2.0
"""How often a push reads what: not at all where the digest is known, once where it can be, and again where it must."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ocibridge.dialects.choices import Compress, Layers
from ocibridge.dialects.reading import parse_manifest, read_artifact
from ocibridge.dialects.writing import PlanOptions, plan_manifest
from ocibridge.errors import IntegrityError
from ocibridge.io.content import BytesContent, FileContent
from ocibridge.io.readers import ByteCount, Reader, ignore_bytes
from ocibridge.layers import Layer, LayerDigests, LayerStream, StoredLayer
from ocibridge.model import Model, ModelFile, Role
from ocibridge.settings import SMALL_FILE
from ocibridge.stores.base import BlobStream
from ocibridge.stores.layout import LayoutStore
from ocibridge.transfer import DigestCache, Published, publish
from ocibridge.transfer import cache as module
from ocibridge.transfer.cache import FILE

from .test_publish import Recording

DATA = hashlib.shake_128(b"weight").digest(SMALL_FILE + 12345)


class Counted(FileContent):
    """Counts how often it is opened."""

    opened = 0

    def open(self, offset: int = 0) -> Reader:
        self.opened += 1
        return super().open(offset)


class Source:
    """A model of one large weight in a file."""

    def __init__(self, path: Path, promised: bool = False) -> None:
        self.path = path
        self.promised = promised
        self.write(DATA)

    def write(self, data: bytes) -> None:
        self.path.write_bytes(data)

    def model(self) -> Model:
        self.content = Counted(self.path)
        sha256 = hashlib.sha256(self.path.read_bytes()).hexdigest() if self.promised else None
        readme = ModelFile("README.md", Role.DOC, BytesContent(b"# it"))
        return Model("folder", (ModelFile("w", Role.WEIGHT, self.content, sha256), readme))


@pytest.fixture(autouse=True)
def fsync_alld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED", -(10**12))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "w")


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[DigestCache]:
    with DigestCache(tmp_path / "cache") as opened:
        yield opened


def layout(tmp_path: Path, name: str = "layout") -> LayoutStore:
    return LayoutStore(tmp_path / name, create=True)


def layers_of(store: LayoutStore, tag: str = "v1") -> Sequence[StoredLayer]:
    manifest = parse_manifest(store.fetch_manifest(tag)[1], "it")
    return read_artifact(manifest, store.read_blob(manifest.config, 1 << 20), "it").layers


def expected(source: Source, tmp_path: Path, options: PlanOptions) -> Published:
    """What a push gives that knows nothing and hashes first."""
    store = layout(tmp_path, "expected")
    store.is_new = lambda: False  # type: ignore[method-assign]
    return publish(plan_manifest(source.model(), options), store, "v1")


@pytest.mark.parametrize("compress", list(Compress))
def test_one_read_for_an_empty_store(tmp_path: Path, source: Source, compress: Compress) -> None:
    options = PlanOptions(compress=compress)
    store, progress = layout(tmp_path), Recording()
    done = publish(plan_manifest(source.model(), options), store, "v1", progress=progress)
    assert source.content.opened == 1
    assert done == expected(source, tmp_path, options)
    assert source.content.opened == 2
    assert progress.planned["hashing"][0] == 1
    sizes = [layer.descriptor.size for layer in done.layers]
    assert progress.bytes["uploading"] == sum(sizes)
    assert not list(store.path.glob(".ocibridge*"))
    for layer in done.layers:
        with store.open_blob(layer.descriptor) as blob:
            assert len(blob.readall() or b"") == layer.descriptor.size


def test_a_store_with_something_in_it_may_have_the_blob(tmp_path: Path, source: Source) -> None:
    store = layout(tmp_path)
    publish(plan_manifest(source.model(), PlanOptions()), store, "v1")
    done = publish(plan_manifest(source.model(), PlanOptions()), store, "v2")
    assert {layer.action for layer in done.layers} == {"present"}
    assert source.content.opened == 1


@pytest.mark.parametrize("layers", list(Layers))
def test_what_the_cache_knows_is_not_read(tmp_path: Path, source: Source, cache: DigestCache, layers: Layers) -> None:
    store, options = layout(tmp_path), PlanOptions(layers)
    first = publish(plan_manifest(source.model(), options), store, "v1", cache=cache)
    assert source.content.opened == 1
    again = publish(plan_manifest(source.model(), options), store, "v2", cache=cache)
    assert source.content.opened == 0
    assert again.manifest == first.manifest
    # A store without the blob gets it in one read, the digest being known.
    other = publish(plan_manifest(source.model(), options), layout(tmp_path, "other"), "v1", cache=cache)
    assert source.content.opened == 1
    assert other == first


def test_what_an_earlier_manifest_names_is_not_read(tmp_path: Path) -> None:
    source, store = Source(tmp_path / "w", promised=True), layout(tmp_path)
    first = publish(plan_manifest(source.model(), PlanOptions()), store, "v1")
    again = publish(plan_manifest(source.model(), PlanOptions()), store, "v1", known=lambda: layers_of(store))
    assert source.content.opened == 0
    assert again.manifest == first.manifest


def test_an_earlier_manifest_says_nothing_of_other_files(tmp_path: Path) -> None:
    promised, free, store = Source(tmp_path / "w", promised=True), Source(tmp_path / "v"), layout(tmp_path)
    publish(plan_manifest(promised.model(), PlanOptions()), store, "v1")

    def pushed(source: Source, **options: object) -> int:
        plan = plan_manifest(source.model(), PlanOptions(**options))  # type: ignore[arg-type]
        publish(plan, store, "v2", known=lambda: layers_of(store))
        return source.content.opened

    assert pushed(free) == 1
    assert pushed(promised, compress=Compress.ZSTD) == 2
    promised.write(DATA[::-1])
    assert pushed(promised) == 2


def test_the_earlier_manifest_is_not_fetched_in_vain(tmp_path: Path, source: Source, cache: DigestCache) -> None:
    def never() -> Sequence[StoredLayer]:
        raise AssertionError

    publish(plan_manifest(source.model(), PlanOptions()), layout(tmp_path), "v1", cache=cache, known=never)
    source.promised = True
    publish(plan_manifest(source.model(), PlanOptions()), layout(tmp_path), "v2", cache=cache, known=never)


def planned(model: Model, options: PlanOptions) -> list[Layer]:
    return [each for each in plan_manifest(model, options).layers if isinstance(each, Layer)]


def tamper(cache: DigestCache, made: Model, other: Source) -> None:
    """Give the layer of one model the digests of another, as no accident could."""
    layer, wrong = planned(made, PlanOptions())[0], planned(other.model(), PlanOptions())[0]
    with LayerStream(wrong) as reading:
        digests = reading.finish()
    key = module.layer_key(layer)
    hashes = tuple(file.sha256 or known for file, known in zip(layer.files, digests.files, strict=True))
    cache.put(layer, key, LayerDigests(digests.digest, digests.size, digests.diff_id, hashes))
    assert cache.get(layer, key)


@pytest.mark.parametrize("promised", [False, True])
def test_a_wrong_row_is_found_by_the_store(tmp_path: Path, cache: DigestCache, promised: bool) -> None:
    source, other = Source(tmp_path / "w", promised), Source(tmp_path / "v")
    other.write(DATA[::-1])
    tamper(cache, source.model(), other)
    store, progress = layout(tmp_path), Recording()
    done = publish(plan_manifest(source.model(), PlanOptions()), store, "v1", cache=cache, progress=progress)
    assert done == expected(source, tmp_path, PlanOptions())
    assert ("uploading", "failed") in progress.outcomes
    source.model()
    again = publish(plan_manifest(source.model(), PlanOptions()), store, "v2", cache=cache)
    assert again.manifest == done.manifest
    assert source.content.opened == 0


def test_a_row_of_other_files_is_a_miss_where_they_are_promised(tmp_path: Path, cache: DigestCache) -> None:
    """Even where the store has the blob, and so would refuse nothing."""
    source, other = Source(tmp_path / "w", promised=True), Source(tmp_path / "v")
    other.write(DATA[::-1])
    store = layout(tmp_path)
    publish(plan_manifest(other.model(), PlanOptions()), store, "other")
    tamper(cache, source.model(), other)
    with sqlite3.connect(tmp_path / "cache" / FILE) as connection:
        (key,) = [key for (key,) in connection.execute("SELECT key FROM digests")]
    connection.close()
    layer = planned(other.model(), PlanOptions())[0]
    with LayerStream(layer) as reading:
        text = module._to_text(key, reading.finish())
    with sqlite3.connect(tmp_path / "cache" / FILE) as connection:
        connection.execute("UPDATE digests SET digests = ?", (text,))
    connection.close()
    done = publish(plan_manifest(source.model(), PlanOptions()), store, "v1", cache=cache)
    assert done.manifest == expected(source, tmp_path, PlanOptions()).manifest


def test_a_wrong_row_of_two_equal_layers(tmp_path: Path, cache: DigestCache) -> None:
    source, other = Source(tmp_path / "w"), Source(tmp_path / "v")
    other.write(DATA[::-1])
    wrong = planned(other.model(), PlanOptions(Layers.RAW))[0]
    first, second = (Counted(source.path, 0, SMALL_FILE), Counted(source.path, 1, SMALL_FILE))
    model = Model("folder", (ModelFile("a", Role.WEIGHT, first), ModelFile("b", Role.WEIGHT, second)))
    plan = plan_manifest(model, PlanOptions(Layers.RAW_FILES))
    with LayerStream(wrong) as reading:
        digests = reading.finish()
    for layer in planned(model, PlanOptions(Layers.RAW_FILES)):
        cache.put(
            layer, module.layer_key(layer), LayerDigests(digests.digest, SMALL_FILE, digests.diff_id, digests.files)
        )
    store = layout(tmp_path)
    done = publish(plan, store, "v1", cache=cache)
    wanted = [hashlib.sha256(DATA[at : at + SMALL_FILE]).hexdigest() for at in (0, 1)]
    assert [layer.descriptor.digest[7:] for layer in done.layers] == wanted


def test_a_source_that_changes_while_it_is_streamed(tmp_path: Path, cache: DigestCache) -> None:
    source = Source(tmp_path / "w", promised=True)

    class Changing(LayoutStore):
        def stream_blob(self, stream: BlobStream, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
            with open(source.path, "r+b") as file:
                file.seek(SMALL_FILE)
                file.write(b"changed")
            return super().stream_blob(stream, key, on_bytes)

    model = source.model()
    store = Changing(tmp_path / "layout", create=True)
    with pytest.raises(IntegrityError, match="its format promises"):
        publish(plan_manifest(model, PlanOptions()), store, "v1", cache=cache)
    assert store.tags() == []
    assert not list(store.path.glob(".ocibridge*"))
    with sqlite3.connect(tmp_path / "cache" / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM digests").fetchone() == (1,)  # README.md
    connection.close()


def test_a_stream_that_fails_is_pushed_with_its_digest(tmp_path: Path, source: Source, cache: DigestCache) -> None:
    class Refusing(LayoutStore):
        def stream_blob(self, stream: BlobStream, key: str | None, on_bytes: ByteCount = ignore_bytes) -> bool:
            next(stream)
            return False

    store, progress = Refusing(tmp_path / "layout", create=True), Recording()
    done = publish(plan_manifest(source.model(), PlanOptions()), store, "v1", cache=cache, progress=progress)
    assert source.content.opened == 2
    assert done == expected(source, tmp_path, PlanOptions())
    assert progress.bytes["uploading"] == sum(layer.descriptor.size for layer in done.layers)


def test_finished_blobs_are_known_although_the_push_was_killed(
    tmp_path: Path, source: Source, cache: DigestCache
) -> None:
    class Killed(BaseException):
        pass

    class Dying(LayoutStore):
        def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> object:  # type: ignore[override]
            raise Killed

    with pytest.raises(Killed):
        publish(
            plan_manifest(source.model(), PlanOptions()), Dying(tmp_path / "layout", create=True), "v1", cache=cache
        )
    done = publish(plan_manifest(source.model(), PlanOptions()), layout(tmp_path), "v1", cache=cache)
    assert source.content.opened == 0
    assert {layer.action for layer in done.layers} == {"present"}
