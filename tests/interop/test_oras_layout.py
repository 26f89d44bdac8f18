# SPDX-License-Identifier: Apache-2.0
"""The ORAS command line reads the layouts written here, and the other way round."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ocibridge.stores.archive import ArchiveStore
from ocibridge.stores.layout import LayoutStore

from ..stores.samples import Sample, sample

pytestmark = pytest.mark.interop


def oras(*arguments: str) -> bytes:
    if not shutil.which("oras"):
        pytest.fail("oras is not on PATH; run 'make interop' where Go is installed, or install oras")
    return subprocess.run(["oras", *arguments], check=True, capture_output=True).stdout


@pytest.fixture
def model() -> Sample:
    return sample(b"one" * 1000, b"two")


@pytest.fixture
def layout(tmp_path: Path, model: Sample) -> Path:
    path = tmp_path / "layout"
    with LayoutStore(path, create=True) as store:
        subject = model.push(store, "v1")
        sample(b"signature", subject=subject, artifact_type="application/vnd.example.signature").push(store, None)
    return path


def test_fetch(layout: Path, model: Sample) -> None:
    for version in (":v1", "@" + model.digest):
        assert oras("manifest", "fetch", "--oci-layout", f"{layout}{version}") == model.manifest


def test_tags_and_referrers(layout: Path, model: Sample) -> None:
    assert oras("repo", "tags", "--oci-layout", str(layout)) == b"v1\n"
    found = json.loads(oras("discover", "--oci-layout", "--format", "json", f"{layout}:v1"))
    assert [each["artifactType"] for each in found["manifests"]] == ["application/vnd.example.signature"]


def test_archive(tmp_path: Path, model: Sample) -> None:
    with ArchiveStore(tmp_path / "model.tar", create=True) as store:
        model.push(store, "v1")
    assert oras("manifest", "fetch", "--oci-layout", f"{tmp_path}/model.tar:v1") == model.manifest


def test_copy(layout: Path, tmp_path: Path, model: Sample) -> None:
    oras("cp", "--recursive", "--from-oci-layout", "--to-oci-layout", f"{layout}:v1", f"{tmp_path}/theirs:v2")
    store = LayoutStore(tmp_path / "theirs")
    model.assert_in(store, "v2")
    assert [each.artifact_type for each in store.referrers(model.digest)] == ["application/vnd.example.signature"]


def test_both_write_into_one_layout(layout: Path, tmp_path: Path, model: Sample) -> None:
    (tmp_path / "file.bin").write_bytes(b"theirs")
    command = ["oras", "push", "--oci-layout", f"{layout}:theirs", "file.bin"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    with LayoutStore(layout, create=True) as store:
        sample(b"ours").push(store, "ours")
    store = LayoutStore(layout)
    assert store.tags() == ["ours", "theirs", "v1"]
    model.assert_in(store, "v1")
    assert len(store.referrers(model.digest)) == 1
    assert oras("manifest", "fetch", "--oci-layout", f"{layout}:ours") == sample(b"ours").manifest
