# SPDX-License-Identifier: Apache-2.0
"""skopeo and the ORAS command line read archives of many references, and theirs are restored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ocibridge.airgap.options import PackOptions
from ocibridge.airgap.pack import pack
from ocibridge.airgap.unpack import unpack
from ocibridge.oci import RegistryReference
from ocibridge.stores.registry import RegistryStore

from ..registry import RegistryServer
from ..stores.samples import Sample, sample
from .test_oras_layout import oras
from .test_skopeo_layout import skopeo

pytestmark = pytest.mark.interop


@pytest.fixture
def model() -> Sample:
    return sample(b"one" * 1000, b"two")


@pytest.fixture
def reference(registry: RegistryServer, repository: str, model: Sample) -> str:
    with RegistryStore(RegistryReference(registry.host, repository)) as store:
        subject = model.push(store, "v1")
        sample(b"signature", subject=subject, artifact_type="application/vnd.example.signature").push(store, None)
        sample(b"other").push(store, "v2")
    return f"{registry.host}/{repository}:v1"


@pytest.fixture
def archive(reference: str, tmp_path: Path) -> Path:
    """One of two references, put together from its volumes by other means."""
    file = tmp_path / "models.tar"
    report = pack(
        [reference, reference.replace(":v1", ":v2")], tmp_path / "split.tar", PackOptions(volume_size=64 * 1024)
    )
    file.write_bytes(b"".join(Path(each.path).read_bytes() for each in report.volumes))
    return file


def test_skopeo_reads_by_name(archive: Path, reference: str, model: Sample) -> None:
    assert skopeo("inspect", "--raw", f"oci-archive:{archive}:{reference}") == model.manifest


def test_skopeo_copies_by_name(archive: Path, reference: str, tmp_path: Path, model: Sample) -> None:
    skopeo("copy", "--preserve-digests", f"oci-archive:{archive}:{reference}", f"oci:{tmp_path}/theirs:v1")
    assert skopeo("inspect", "--raw", f"oci:{tmp_path}/theirs:v1") == model.manifest


def test_oras_reads_by_digest(archive: Path, reference: str, model: Sample) -> None:
    assert oras("manifest", "fetch", "--oci-layout", f"{archive}@{model.digest}") == model.manifest
    assert reference in oras("repo", "tags", "--oci-layout", str(archive)).decode().splitlines()
    found = json.loads(oras("discover", "--oci-layout", "--format", "json", f"{archive}@{model.digest}"))
    listed = found.get("referrers") or found["manifests"]
    assert [each["artifactType"] for each in listed] == ["application/vnd.example.signature"]


@pytest.mark.parametrize("name", ["v1", "example.com/theirs/model:v1"])
def test_archives_of_skopeo_are_restored(
    registry: RegistryServer, repository: str, archive: Path, reference: str, tmp_path: Path, model: Sample, name: str
) -> None:
    theirs = tmp_path / "theirs.tar"
    skopeo("copy", "--preserve-digests", f"oci-archive:{archive}:{reference}", f"oci-archive:{theirs}:{name}")
    (restored,) = unpack(theirs, f"{registry.host}/{repository}-theirs").references
    with RegistryStore(
        RegistryReference(registry.host, restored.target.removeprefix(registry.host + "/")[:-3])
    ) as there:
        model.assert_in(there, "v1")
