# SPDX-License-Identifier: Apache-2.0
"""What is published with `--also image` is what containers see: the model's files, byte for byte, read-only."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ocibridge

from ..registry import RegistryServer
from .containerd import CtrContainerd, KubeletContainerd
from .engines import Engine, tree
from .podman import Podman

pytestmark = pytest.mark.runtimes
FIXTURES = Path(__file__).parents[1] / "fixtures"
SHARDS = 163
READ_ONLY = "read-only file system"


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(FIXTURES / f"{name}.tar") as archive:
        archive.extractall(folder / name, filter="data")
    return folder / name


def push(source: str | Path, registry: RegistryServer, repository: str, **options: Any) -> str:
    """Push with the image beside it; gives the reference of the image."""
    target = f"{registry.host}/{repository}:v1"
    ocibridge.push(source, target, ocibridge.PushOptions(also=["image"], **options))
    return f"{target}-image"


def assert_seen(engines: tuple[Engine, ...], reference: str, files: Mapping[str, str]) -> None:
    for engine in engines:
        seen = engine.see(reference)
        assert seen.files == files, type(engine).__name__
        assert READ_ONLY in seen.write.lower(), type(engine).__name__


@pytest.mark.parametrize("compress", ["none", "gzip", "zstd"])
def test_a_folder(
    compress: str, engines: tuple[Engine, ...], registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    folder = unpacked("hf-digits", tmp_path)
    image = push(folder, registry, repository, compress=compress)
    assert_seen(engines, image, tree(folder))


def test_below_a_prefix(engines: tuple[Engine, ...], registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    folder = unpacked("hf-digits", tmp_path)
    files = tree(folder)
    image = push(folder, registry, repository, prefix="models/")
    assert_seen(engines, image, {f"models/{path}": sha256 for path, sha256 in files.items()})


def test_a_sub_path_of_the_volume(
    kubelet_containerd: KubeletContainerd, registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    """What KServe does with the prefix; containerd can since 2.2."""
    folder = unpacked("hf-digits", tmp_path)
    files = tree(folder)
    image = push(folder, registry, repository, prefix="models/")
    assert kubelet_containerd.see(image, "models").files == files


def test_a_model_of_ollama(
    engines: tuple[Engine, ...],
    registry: RegistryServer,
    repository: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its blobs are published raw, so that the image has layers of its own."""
    store = unpacked("ollama-store", tmp_path)
    monkeypatch.setenv("OLLAMA_MODELS", str(store))
    image = push("ollama:tinyllama-test", registry, repository)
    expected = {file.path: str(file.sha256) for file in ocibridge.inspect(image.removesuffix("-image")).files}
    blobs = {path.name.removeprefix("sha256-") for path in (store / "blobs").iterdir()}
    assert any(path.endswith(".gguf") and sha256 in blobs for path, sha256 in expected.items())
    assert_seen(engines, image, expected)


def test_many_shards(engines: tuple[Engine, ...], registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    """More shards than an overlay mount has layers: neighbours share one, and Docker's 125 are not exceeded."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(1, SHARDS + 1):
        header = json.dumps({"__metadata__": {"shard": str(number)}}).encode()
        path = folder / f"model-{number:05}-of-{SHARDS:05}.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header)
    files = tree(folder)
    assert len(set(files.values())) == SHARDS
    image = push(folder, registry, repository)
    assert len(ocibridge.inspect(image.removesuffix("-image")).layers) <= 125
    assert_seen(engines, image, files)


def test_a_carton_stays_one(
    engines: tuple[Engine, ...],
    ctr_containerd: CtrContainerd,
    podman: Podman,
    registry: RegistryServer,
    repository: str,
    tmp_path: Path,
) -> None:
    """Its links are files in the layers, which a mount below another path would not follow."""
    files = tree(unpacked("digits-unpacked", tmp_path), follow=True)
    image = push(FIXTURES / "digits.carton", registry, repository)
    assert_seen(engines, image, files)
    identity = ocibridge.verify(FIXTURES / "digits.carton").identity
    for engine in (ctr_containerd, podman):
        with engine.mounted(image) as mounted:
            assert ocibridge.verify(mounted).identity == identity


def test_prepared_later(engines: tuple[Engine, ...], registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    """From raw layers, which no runtime unpacks."""
    folder = unpacked("hf-digits", tmp_path)
    target = f"{registry.host}/{repository}:v1"
    ocibridge.push(folder, target, ocibridge.PushOptions(layers="raw-files"))
    prepared = ocibridge.volume_prepare(target)
    assert_seen(engines, prepared.reference, tree(folder))


def test_the_draft_dialect_mounts_by_itself(
    engines: tuple[Engine, ...], registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    folder = unpacked("hf-digits", tmp_path)
    pushed = ocibridge.push(folder, f"{registry.host}/{repository}:v1", ocibridge.PushOptions(dialect="draft"))
    assert_seen(engines, pushed.reference, tree(folder))
