# SPDX-License-Identifier: Apache-2.0
"""One file of a model is read without the others, wherever the model is."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge import IntegrityError, MemoryStore, NotFound, PushOptions, SourceError, StoreReference
from ocibridge.io.content import BytesContent
from ocibridge.io.readers import Reader
from ocibridge.layers import Encoding, StoredLayer
from ocibridge.layers.tar import tar_header
from ocibridge.model import FileEntry, Role
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor, RegistryReference, sha256_digest
from ocibridge.settings import KiB
from ocibridge.stores.base import Store
from ocibridge.stores.files import layer_files
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.registry import RegistryStore

from ..kill.counting import Line
from ..registry import RegistryServer

GiB = KiB**3
MOST = 100 * KiB
"""Bytes that may move for a file of 1 KiB: manifest, config, headers and the file."""
SMALL = os.urandom(KiB)
FILES = {
    "config.json": b'{"a": 1}',
    "README.md": b"# model\n",
    "deep/er/weights.safetensors": os.urandom(70_000),
    "large.bin": os.urandom(3 * KiB * KiB),
    "zoo.txt": b"last\n",
    "ümläut.txt": b"not ASCII",
    "long/" + "x" * 150 + ".txt": b"a prefix, or pax",
}


class CountedLayout(LayoutStore):
    """A layout that counts the bytes which are read of its blobs."""

    read = 0

    def _open_blob(self, descriptor: Descriptor, offset: int) -> Reader:
        return _Counted(super()._open_blob(descriptor, offset), self)


class _Counted(io.RawIOBase):
    def __init__(self, source: Reader, store: CountedLayout) -> None:
        self._source = source
        self._store = store

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._source.readinto(buffer) or 0
        self._store.read += count
        return count


def folder(path: Path, files: Mapping[str, bytes] = FILES) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def read(subject: Any, path: str) -> bytes:
    with ocibridge.open_file(subject, path) as file:
        assert (file.path, file.size) == (path, len(FILES.get(path, b"")) or file.size)
        return b"".join(iter(lambda: file.read(100_000), b""))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layers": "raw"},
        {"layers": "raw-files"},
        {"compress": "gzip"},
        {"compress": "zstd"},
        {"max_layers": 3, "prefix": "models"},
        {"dialect": "draft"},
        {"dialect": "modelpack"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["registry", "layout", "archive"])
def test_every_file_of_every_form(
    tmp_path: Path, registry: RegistryServer, repository: str, kind: str, options: dict[str, Any]
) -> None:
    target = {
        "registry": f"{registry.host}/{repository}:v1",
        "layout": f"oci:{tmp_path}/layout:v1",
        "archive": f"oci-archive:{tmp_path}/file.tar:v1",
    }[kind]
    ocibridge.push(folder(tmp_path / "model"), target, PushOptions(**options))
    assert {path: read(target, path) for path in FILES} == FILES
    with pytest.raises(NotFound, match=r"has no file 'weights'; files there: deep/er/weights.safetensors"):
        ocibridge.open_file(target, "weights")


@pytest.mark.parametrize("compress", ["none", "gzip", "zstd"])
def test_layers_whose_manifest_lists_no_files(tmp_path: Path, compress: str) -> None:
    store = MemoryStore()
    ocibridge.push(folder(tmp_path / "model"), StoreReference(store, "v1"), PushOptions(compress=compress))
    _, data = store.fetch_manifest("v1")
    manifest = json.loads(data)
    for layer in manifest["layers"]:
        layer["annotations"].pop("org.ocibridge.files", None)
    store.push_manifest(json.dumps(manifest).encode(), MEDIA_TYPE_MANIFEST, "bare")
    bare = StoreReference(store, "bare")
    assert {path: read(bare, path) for path in FILES} == FILES
    with pytest.raises(NotFound, match=r"has no file 'zo.txt'; files there: zoo.txt"):
        ocibridge.open_file(bare, "zo.txt")


def blob_of(store: MemoryStore, files: Mapping[str, bytes], kind: int) -> Descriptor:
    """A tar archive of the standard library: other modes, times and order than ours."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(data), 1234567890, 0o600
            archive.addfile(member, io.BytesIO(data))
    descriptor = Descriptor.of(buffer.getvalue(), "application/vnd.cnai.model.weight.v1.tar")
    store.push_blob(descriptor, BytesContent(buffer.getvalue()))
    return descriptor


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("listed", [True, False])
def test_tar_layers_of_others(kind: int, listed: bool) -> None:
    store = MemoryStore()
    named = {name: data for name, data in FILES.items() if kind != tarfile.USTAR_FORMAT or len(name) < 100}
    descriptor = blob_of(store, named, kind)
    entries = tuple(FileEntry(name, Role.WEIGHT, len(data), sha256_digest(data)[7:]) for name, data in named.items())
    layer = StoredLayer(descriptor, Encoding.TAR, Role.WEIGHT, entries if listed else ())
    found = {file.path: file for file in layer_files(store, layer)}
    assert {path: file.size for path, file in found.items()} == {path: len(data) for path, data in named.items()}
    for path, file in found.items():
        for offset in (0, 3, file.size):
            with file.content.open(offset) as reader:
                assert reader.readall() == named[path][offset:]


def test_a_listing_that_is_not_true(tmp_path: Path) -> None:
    store = MemoryStore()
    descriptor = blob_of(store, {"a": b"12345", "b": b"67890"}, tarfile.USTAR_FORMAT)

    def content(path: str, size: int, sha256: str | None) -> Any:
        layer = StoredLayer(descriptor, Encoding.TAR, Role.WEIGHT, (FileEntry(path, Role.WEIGHT, size, sha256),))
        return next(layer_files(store, layer)).content

    for path, size in (("c", 5), ("a", 4), ("a", 1 << 40)):
        with pytest.raises(IntegrityError, match=f"lacks '{path}'"):
            content(path, size, None).open()
    with pytest.raises(IntegrityError, match="the file 'a'"), content("a", 5, "0" * 64).open() as reader:
        reader.readall()
    with content("b", 5, sha256_digest(b"67890")[7:]).open() as reader:
        assert reader.readall() == b"67890"


@pytest.mark.parametrize("layers", ["tar", "raw-files"])
def test_other_bytes_are_found_out(tmp_path: Path, layers: str) -> None:
    ocibridge.push(folder(tmp_path / "model"), f"oci:{tmp_path}/layout:v1", PushOptions(layers=layers))
    size = len(FILES["large.bin"])
    (blob,) = [each for each in (tmp_path / "layout" / "blobs" / "sha256").iterdir() if each.stat().st_size >= size]
    with open(blob, "r+b") as file:
        file.seek(size // 2)
        file.write(b"other")
    with pytest.raises(IntegrityError, match="other bytes"):
        read(f"oci:{tmp_path}/layout:v1", "large.bin")


def test_models_on_disk(tmp_path: Path) -> None:
    fixtures = Path(__file__).parent.parent / "fixtures"
    path = folder(tmp_path / "model")
    assert {name: read(path, name) for name in FILES} == FILES
    for archive, name in (("digits.carton", "carton.toml"), ("digits.mlarchive", None)):
        name = name or ocibridge.inspect(fixtures / archive).files[0].path
        ocibridge.push(fixtures / archive, f"oci:{tmp_path}/layout:v1")
        assert read(fixtures / archive, name) == read(f"oci:{tmp_path}/layout:v1", name)
    with pytest.raises(NotFound, match=r"has no file 'nothing'"):
        ocibridge.open_file(fixtures / "digits.carton", "nothing")
    with pytest.raises(SourceError, match=r"only links to it; add --fetch-links"):
        ocibridge.open_file(fixtures / "digits-links.carton", "model/model.pt")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a weight that is far larger than any buffer on the way, between two of 1 KiB."""
    path = folder(tmp_path_factory.mktemp("large"), {"a.safetensors": SMALL, "c.safetensors": SMALL})
    with open(path / "b.safetensors", "wb") as file:
        file.truncate(64 * KiB * KiB)
    return path


@pytest.mark.parametrize(
    "options", [PushOptions(max_layers=1), PushOptions(layers="raw-files")], ids=["one tar layer", "raw layers"]
)
def test_a_small_file_of_a_registry_moves_alone(
    registry: RegistryServer, repository: str, large: Path, options: PushOptions
) -> None:
    ocibridge.push(large, f"{registry.host}/{repository}:v1", options)
    with Line(registry.host) as line:
        for path in ("a.safetensors", "c.safetensors"):
            before = line.received
            assert read(f"{line.host}/{repository}:v1", path) == SMALL
            assert KiB <= line.received - before < MOST
        if options.max_layers:
            before = line.received
            with RegistryStore(RegistryReference(line.host, repository)) as store:
                assert last_of(store) == SMALL
            assert KiB <= line.received - before < MOST


def test_a_small_file_of_a_layout_with_a_layer_of_2_gib(tmp_path: Path, large: Path) -> None:
    ocibridge.push(large, f"oci:{tmp_path}:v1", PushOptions(max_layers=1))
    store = CountedLayout(tmp_path)
    manifest = json.loads(store.fetch_manifest("v1")[1])
    (layer,) = manifest["layers"]
    listing = json.loads(layer["annotations"]["org.ocibridge.files"])
    listing[1]["size"] = 2 * GiB
    layer["annotations"]["org.ocibridge.files"] = json.dumps(listing)
    layer["digest"] = "sha256:" + "1" * 64  # it takes a while to hash it, and no range is held to it
    with open(tmp_path / "blobs" / "sha256" / ("1" * 64), "wb") as blob:
        for row in listing:
            blob.write(tar_header(row["path"], row["size"]))
            if row["path"] == "b.safetensors":
                blob.seek(2 * GiB, os.SEEK_CUR)
            else:
                blob.write(SMALL)
        blob.write(bytes(1024))
        layer["size"] = blob.tell()
    store.push_manifest(json.dumps(manifest).encode(), MEDIA_TYPE_MANIFEST, "v1")
    for path in ("a.safetensors", "c.safetensors"):
        store.read = 0
        assert read(StoreReference(store, "v1"), path) == SMALL
        assert KiB <= store.read < MOST
    store.read = 0
    assert last_of(store) == SMALL
    assert KiB <= store.read < MOST


def last_of(store: Store) -> bytes:
    """The last file of the one layer, as a manifest without our annotations describes it."""
    (descriptor,) = json.loads(store.fetch_manifest("v1")[1])["layers"]
    layer = StoredLayer(Descriptor.model_validate(descriptor), Encoding.TAR, Role.WEIGHT)
    (last,) = [file for file in layer_files(store, layer) if file.path == "c.safetensors"]
    with last.content.open() as reader:
        return reader.readall()
