# SPDX-License-Identifier: Apache-2.0
"""The predictions of `volume check` hold in the runtimes, for artifacts of many tools."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from ocibridge.oci import parse_reference
from ocibridge.stores.opening import open_store
from ocibridge.volume.reports import Prediction

from ..registry import RegistryServer
from ..volume.artifacts import predict
from .artifacts import BUILDS, Build, model, ocibridge_raw_files, ocibridge_tar
from .containerd import ARCHITECTURE, CtrContainerd, KubeletContainerd
from .crio import KubeletCrio
from .engines import Engine, Refused
from .podman import Podman
from .publishing import Publisher

pytestmark = pytest.mark.runtimes


def shown(engine: Engine, reference: str, wanted: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """The verdict in the words of `volume check`, and what was there."""
    try:
        files = engine.see(reference).files
    except Refused:
        return "refused", {}
    if not files:
        return "empty", files
    return ("mounts" if files == wanted else "wrong"), files


def predicted(reference: str, runtime: str, version: str) -> Prediction:
    named = parse_reference(reference)
    with open_store(named) as store:
        return predict(store, named, runtime, version, f"linux/{ARCHITECTURE}")


def assert_right(prediction: Prediction, verdict: str, files: Mapping[str, str]) -> None:
    assert prediction.verdict == verdict, prediction.reason
    if not prediction.unread:
        assert {file.path for file in prediction.files} == set(files)
    for file in prediction.files:
        assert file.sha256 in (None, files[file.path])


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_artifact(
    build: Build,
    kubelet_containerd: KubeletContainerd,
    kubelet_crio: KubeletCrio,
    ctr_containerd: CtrContainerd,
    podman: Podman,
    registry: RegistryServer,
    repository: str,
    tmp_path: Path,
) -> None:
    """podman of Debian stands for CRI-O 1.32: it has the library of that time, and knows no artifacts."""
    tag = build.__name__.replace("_", "-")
    publisher = Publisher(registry.host, repository)
    wanted = {name: hashlib.sha256(data).hexdigest() for name, data in build(publisher, tmp_path, tag).items()}
    reference = f"{publisher.name}:{tag}"
    for containerd in (kubelet_containerd, ctr_containerd):
        assert_right(predicted(reference, "containerd", containerd.version), *shown(containerd, reference, wanted))
    assert_right(predicted(reference, "cri-o", kubelet_crio.version), *shown(kubelet_crio, reference, wanted))
    assert_right(predicted(reference, "cri-o", "1.32"), *shown(podman, reference, wanted))


def test_the_trap(
    kubelet_containerd: KubeletContainerd, registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    """A model artifact on containerd 2: no error, and an empty folder."""
    publisher = Publisher(registry.host, repository)
    ocibridge_tar(publisher, tmp_path, "trap")
    assert kubelet_containerd.see(f"{publisher.name}:trap").files == {}


def test_files_mounted_directly(
    kubelet_crio: KubeletCrio, registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    """An artifact of raw files needs no image on CRI-O; a sub path is a folder of its names."""
    publisher = Publisher(registry.host, repository)
    ocibridge_raw_files(publisher, tmp_path, "direct")
    seen = kubelet_crio.see(f"{publisher.name}:direct", "sub")
    data = model("direct")["sub/model.safetensors"]
    assert seen.files == {"model.safetensors": hashlib.sha256(data).hexdigest()}
