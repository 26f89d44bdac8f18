# SPDX-License-Identifier: Apache-2.0
"""skopeo reads the layouts and archives written here, and the other way round."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ocibridge.oci import sha256_digest
from ocibridge.stores.archive import ArchiveStore
from ocibridge.stores.layout import LayoutStore

from ..stores.samples import Sample, sample

pytestmark = pytest.mark.interop


def skopeo(*arguments: str) -> bytes:
    if not shutil.which("skopeo"):
        pytest.fail("skopeo is not installed; install the package 'skopeo' of your distribution")
    return subprocess.run(["skopeo", *arguments], check=True, capture_output=True).stdout


@pytest.fixture
def model() -> Sample:
    return sample(b"one" * 1000, b"two")


@pytest.fixture
def layout(tmp_path: Path, model: Sample) -> Path:
    path = tmp_path / "layout"
    with LayoutStore(path, create=True) as store:
        sample(b"other").push(store, "v0")
        model.push(store, "v1")
    return path


@pytest.fixture
def archive(tmp_path: Path, model: Sample) -> Path:
    path = tmp_path / "model.tar"
    for pushed, tag in ((sample(b"other"), "v0"), (model, "v1")):
        with ArchiveStore(path, create=True) as store:
            pushed.push(store, tag)
    return path


def test_inspect(layout: Path, archive: Path, model: Sample) -> None:
    for reference in (f"oci:{layout}:v1", f"oci-archive:{archive}:v1"):
        raw = skopeo("inspect", "--raw", reference)
        assert raw == model.manifest
        assert sha256_digest(raw) == model.digest


def test_copy_layout_to_archive(layout: Path, tmp_path: Path, model: Sample) -> None:
    skopeo("copy", "--preserve-digests", f"oci:{layout}:v1", f"oci-archive:{tmp_path}/theirs.tar:v2")
    store = ArchiveStore(tmp_path / "theirs.tar")
    assert store.tags() == ["v2"]
    model.assert_in(store, "v2")


def test_copy_archive_to_layout(archive: Path, tmp_path: Path, model: Sample) -> None:
    skopeo("copy", "--preserve-digests", f"oci-archive:{archive}:v1", f"oci:{tmp_path}/theirs:v2")
    model.assert_in(LayoutStore(tmp_path / "theirs"), "v2")


def test_both_write_into_one_layout(layout: Path, archive: Path, model: Sample) -> None:
    skopeo("copy", "--preserve-digests", f"oci-archive:{archive}:v0", f"oci:{layout}:theirs")
    with LayoutStore(layout, create=True) as store:
        sample(b"ours").push(store, "ours")
    store = LayoutStore(layout)
    # skopeo up to 1.9 moves the tag of an equal manifest (v0) instead of adding one.
    assert {"ours", "theirs", "v1"} <= set(store.tags())
    sample(b"other").assert_in(store, "theirs")
    assert skopeo("inspect", "--raw", f"oci:{layout}:ours") == sample(b"ours").manifest


def test_both_write_into_one_archive(layout: Path, tmp_path: Path, model: Sample) -> None:
    skopeo("copy", "--preserve-digests", f"oci:{layout}:v1", f"oci-archive:{tmp_path}/theirs.tar:v1")
    with ArchiveStore(tmp_path / "theirs.tar", create=True) as store:
        sample(b"ours").push(store, "ours")
    assert skopeo("inspect", "--raw", f"oci-archive:{tmp_path}/theirs.tar:v1") == model.manifest
    assert json.loads(skopeo("inspect", "--raw", f"oci-archive:{tmp_path}/theirs.tar:ours"))


def test_untagged_archive_is_found_by_digest(layout: Path, tmp_path: Path, model: Sample) -> None:
    skopeo("copy", "--preserve-digests", f"oci:{layout}:v1", f"oci-archive:{tmp_path}/theirs.tar")
    model.assert_in(ArchiveStore(tmp_path / "theirs.tar"), model.digest)
