# SPDX-License-Identifier: Apache-2.0
"""Publishing and restoring: order, skipping, stopping, nothing half-done."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ocibridge.dialects.choices import Layers
from ocibridge.dialects.reading import parse_manifest, read_artifact
from ocibridge.dialects.writing import PlanOptions, plan_manifest
from ocibridge.errors import IntegrityError, NotFound, StoreError
from ocibridge.formats.base import Sink
from ocibridge.io.content import BytesContent, Content
from ocibridge.io.readers import ByteCount, Reader, ignore_bytes
from ocibridge.model import Model, ModelFile, Role
from ocibridge.oci import Descriptor
from ocibridge.settings import SMALL_FILE
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.registry import RegistryStore
from ocibridge.transfer import Progress, Task, publish, restore
from ocibridge.transfer.session import CopySession

from ..dialects.models import SMALL, file
from .graphs import Logged


class Recording(Progress):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.outcomes: list[tuple[str, str]] = []
        self.bytes: dict[str, int] = {}
        self.planned: dict[str, tuple[int, int]] = {}

    def plan(self, phase: str, tasks: int, size: int) -> None:
        self.planned[phase] = (tasks, size)

    def advance(self, task: Task, count: int) -> None:
        with self.lock:
            self.bytes[task.phase] = self.bytes.get(task.phase, 0) + count

    def finish(self, task: Task, outcome: str) -> None:
        with self.lock:
            self.outcomes.append((task.phase, outcome))


class Memory(Sink):
    parallel = True

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.committed = False

    def write(self, path: str, size: int, reader: Reader, sha256: str | None = None) -> None:
        self.files[path] = reader.read()
        assert len(self.files[path]) == size

    def commit(self) -> str | None:
        self.committed = True
        return "memory"

    def abort(self) -> None:
        pass


@pytest.fixture
def store(tmp_path: Path) -> LayoutStore:
    return LayoutStore(tmp_path / "layout", create=True)


@pytest.mark.parametrize("layers", list(Layers))
def test_out_and_back(store: LayoutStore, layers: Layers) -> None:
    progress = Recording()
    done = publish(plan_manifest(SMALL, PlanOptions(layers)), store, "v1", progress=progress)
    descriptor, data = store.fetch_manifest("v1")
    assert descriptor.digest == done.manifest.digest
    artifact = read_artifact(manifest := parse_manifest(data, "it"), store.read_blob(manifest.config, 1 << 20), "it")
    sink = Memory()
    assert restore(artifact.layers, store, sink, progress=progress).identity == "memory"
    assert sink.files["model-1.safetensors"] == b"w" * 2000
    assert sink.files.keys() == {each.path for each in SMALL.files}
    assert progress.bytes["uploading"] == progress.planned["uploading"][1]
    assert progress.bytes["downloading"] == progress.planned["downloading"][1]


def test_the_second_push_moves_nothing(store: LayoutStore) -> None:
    first = publish(plan_manifest(SMALL, PlanOptions()), store, "v1")
    progress = Recording()
    second = publish(plan_manifest(SMALL, PlanOptions()), store, "v1", progress=progress)
    assert second.manifest == first.manifest
    assert {each.action for each in first.layers} == {"copied"}
    assert {each.action for each in second.layers} == {"present"}
    assert "uploading" not in progress.bytes


def test_equal_blobs_move_once(store: LayoutStore) -> None:
    progress = Recording()
    done = publish(plan_manifest(SMALL, PlanOptions(Layers.RAW_FILES)), store, "v1", progress=progress)
    assert len(done.layers) == len(SMALL.files)
    assert progress.planned["uploading"][0] == len({each.descriptor.digest for each in done.layers})


class Failing(LayoutStore):
    """A layout that refuses one layer."""

    refused = ""

    def push_blob(self, descriptor: Descriptor, content: Content, on_bytes: ByteCount = ignore_bytes) -> None:
        if descriptor.size == 2000:
            raise StoreError("it is refused")
        super().push_blob(descriptor, content, on_bytes)


def test_a_failure_leaves_no_tag(tmp_path: Path) -> None:
    store = Failing(tmp_path / "layout", create=True)
    with pytest.raises(StoreError, match="it is refused"):
        publish(plan_manifest(SMALL, PlanOptions(Layers.RAW)), store, "v1")
    assert store.tags() == []
    with pytest.raises(NotFound):
        store.resolve("v1")


class Endless:
    """A content that goes on until it is told to stop, and says that it was."""

    size = 1 << 50

    def __init__(self) -> None:
        self.started = threading.Event()
        self.closed = threading.Event()

    def open(self, offset: int = 0) -> Reader:
        outer = self

        class Zeros(Reader):
            def readable(self) -> bool:
                return True

            def readinto(self, buffer: object, /) -> int:
                outer.started.set()
                return len(memoryview(buffer))  # type: ignore[arg-type]

            def close(self) -> None:
                outer.closed.set()
                super().close()

        return Zeros()


@pytest.mark.parametrize("streams", [False, True])
def test_the_first_error_stops_the_others(store: LayoutStore, monkeypatch: pytest.MonkeyPatch, streams: bool) -> None:
    endless = Endless()

    class Broken:
        size = SMALL_FILE

        def open(self, offset: int = 0) -> Reader:
            endless.started.wait(10)
            return BytesContent(bytes(SMALL_FILE)).open()

    model = Model(
        "folder",
        (
            ModelFile("a", Role.WEIGHT, endless),
            ModelFile("b", Role.WEIGHT, Broken(), sha256="0" * 64),
        ),
    )
    monkeypatch.setattr(store, "is_new", lambda: streams)
    with pytest.raises(IntegrityError, match="'b' has the sha256"):
        publish(plan_manifest(model, PlanOptions()), store, "v1")
    assert endless.closed.is_set()
    assert not list(store.path.glob(".ocibridge*"))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("ocibridge")]


def test_a_source_that_changes_between_the_reads_is_named(store: LayoutStore) -> None:
    class Changing:
        size = 4
        reads = 0

        def open(self, offset: int = 0) -> Reader:
            self.reads += 1
            return BytesContent(b"one " if self.reads == 1 else b"two ").open(offset)

    model = Model("folder", (ModelFile("w", Role.WEIGHT, Changing()),))
    with pytest.raises(IntegrityError, match="w does not have the bytes that were announced"):
        publish(plan_manifest(model, PlanOptions()), store, "v1")
    assert store.tags() == []


def test_a_broken_promise_of_a_raw_layer_is_found_by_the_store(store: LayoutStore) -> None:
    lie = ModelFile("w", Role.WEIGHT, BytesContent(b"x"), sha256="0" * 64)
    with pytest.raises(IntegrityError, match="w does not have the bytes"):
        publish(plan_manifest(Model("folder", (lie,)), PlanOptions(Layers.RAW_FILES)), store, "v1")
    assert store.tags() == []


def test_a_damaged_blob_never_reaches_commit(store: LayoutStore, tmp_path: Path) -> None:
    done = publish(plan_manifest(SMALL, PlanOptions(Layers.RAW)), store, "v1")
    weight = next(each.descriptor for each in done.layers if each.descriptor.size == 2000)
    blob = tmp_path / "layout" / "blobs" / "sha256" / weight.digest[7:]
    blob.chmod(0o644)
    blob.write_bytes(b"W" * 2000)
    data = store.fetch_manifest("v1")[1]
    manifest = parse_manifest(data, "it")
    artifact = read_artifact(manifest, store.read_blob(manifest.config, 1 << 20), "it")
    sink = Memory()
    with pytest.raises(IntegrityError, match="other bytes"):
        restore(artifact.layers, store, sink)
    assert not sink.committed


def test_colliding_paths_of_two_layers_are_refused(store: LayoutStore) -> None:
    from ocibridge.errors import FormatError

    model = Model("folder", (file("A", Role.WEIGHT, b"1"), file("a", Role.WEIGHT, b"2")))
    publish(plan_manifest(model, PlanOptions()), store, "v1")
    data = (
        store.fetch_manifest("v1")[1]
        .replace(b"org.ocibridge.files", b"org.ocibridge.other")
        .replace(b"filepath", b"filepith")
        .replace(b"image.title", b"image.tytle")
    )
    manifest = parse_manifest(data, "it")
    artifact = read_artifact(manifest, store.read_blob(manifest.config, 1 << 20), "it")
    sink = Memory()
    with pytest.raises(FormatError, match="collides"):
        restore(artifact.layers, store, sink)
    assert not sink.committed


def test_what_the_target_was_wrongly_believed_to_have_is_brought(tmp_path: Path) -> None:
    class Strict(LayoutStore):
        def push_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
            manifest = parse_manifest(data, "it")
            if not all(self.has_blob(each) for each in (manifest.config, *manifest.layers)):
                raise StoreError("a blob is unknown", code="MANIFEST_BLOB_UNKNOWN")
            return super().push_manifest(data, media_type, tag)

    plan = plan_manifest(SMALL, PlanOptions())
    done = publish(plan, LayoutStore(tmp_path / "other", create=True), "v1")
    store, session = Strict(tmp_path / "layout", create=True), CopySession()
    for layer in done.layers:
        session.presence(store, layer.descriptor.digest).homes[store.name] = store
    assert publish(plan, store, "v1", session=session).manifest == done.manifest
    assert store.tags() == ["v1"]


def test_a_push_to_a_new_repository_asks_for_no_small_blob(there: Logged, target: RegistryStore) -> None:
    session = CopySession()
    there.asked(target)
    done = publish(plan_manifest(SMALL, PlanOptions()), target, "v1", session=session)
    blobs = 1 + len({each.descriptor.digest for each in done.layers})
    assert there.asked(target) == {
        "GET tags 404": 1,
        "POST uploads 202": blobs,
        "PUT uploads 201": blobs,
        "PUT manifests 201": 1,
    }
    # What the session knows of is neither asked for nor sent again.
    publish(plan_manifest(SMALL, PlanOptions()), target, "v2", session=session)
    assert there.asked(target) == {"PUT manifests 201": 1}
