# SPDX-License-Identifier: Apache-2.0
"""`verify`: what there is to compare with, and what differs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge import IntegrityError, MemoryStore, PushOptions, StoreReference, UsageError, VerifyOptions
from ocibridge.oci import MEDIA_TYPE_MANIFEST

from ..registry import RegistryServer

FIXTURES = Path(__file__).parent.parent / "fixtures"
CARTON = FIXTURES / "digits.carton"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "model.bin").write_bytes(bytes(range(256)) * 300)
    (path / "notes.txt").write_text("n")
    return path


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": "raw-files"}, {"compress": "gzip"}, {"prefix": "models"}],
    ids=["tar", "raw", "gzip", "prefix"],
)
def test_a_folder_against_its_artifact(
    folder: Path, registry: RegistryServer, repository: str, options: dict[str, Any]
) -> None:
    alone = ocibridge.verify(folder)
    assert (alone.verified, alone.against) == (False, None)
    pushed = ocibridge.push(folder, f"{registry.host}/{repository}:v1", PushOptions(**options))
    against = VerifyOptions(against=f"{registry.host}/{repository}:v1")
    report = ocibridge.verify(folder, against)
    assert (report.verified, report.against) == (True, pushed.reference)
    assert report.proven[-1] == f"3 files, and no other, are byte for byte in {pushed.reference}"
    (folder / "config.json").write_text("[]")
    (folder / "model.bin").unlink()
    (folder / "more.txt").touch()
    with pytest.raises(IntegrityError) as caught:
        ocibridge.verify(folder, against)
    assert caught.value.message == (
        f"{folder} is not {registry.host}/{repository}:v1: changed 'config.json'; missing 'model.bin'; added 'more.txt'"
    )


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_an_artifact_that_lists_no_files_is_read(folder: Path, compress: str) -> None:
    store = MemoryStore()
    ocibridge.push(folder, StoreReference(store, "v1"), PushOptions(compress=compress))
    manifest = json.loads(store.fetch_manifest("v1")[1])
    for layer in manifest["layers"]:
        del layer["annotations"]["org.ocibridge.files"]
    store.push_manifest(json.dumps(manifest).encode(), MEDIA_TYPE_MANIFEST, "bare")
    against = VerifyOptions(against=StoreReference(store, "bare"))
    assert ocibridge.verify(folder, against).verified
    assert ocibridge.verify(StoreReference(store, "v1"), against).verified
    data = bytearray((folder / "model.bin").read_bytes())
    data[5000] ^= 1
    (folder / "model.bin").write_bytes(data)
    with pytest.raises(IntegrityError, match=r"changed 'model.bin'$|changed 'model.bin';"):
        ocibridge.verify(folder, against)


def test_nothing_is_read_of_what_the_manifest_says(folder: Path, tmp_path: Path) -> None:
    ocibridge.push(folder, f"oci:{tmp_path}/layout:v1")
    for blob in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        if blob.stat().st_size > 1000 and b"schemaVersion" not in blob.read_bytes():
            blob.unlink()
    assert ocibridge.verify(folder, VerifyOptions(against=f"oci:{tmp_path}/layout:v1")).verified


def test_artifacts_against_each_other(folder: Path, tmp_path: Path) -> None:
    one, two = f"oci:{tmp_path}/layout:one", f"oci:{tmp_path}/layout:two"
    ocibridge.push(folder, one)
    ocibridge.push(folder, two, PushOptions(layers="raw-files"))
    assert ocibridge.verify(one, VerifyOptions(against=two)).verified
    (folder / "config.json").write_text("other")
    ocibridge.push(folder, two)
    with pytest.raises(IntegrityError, match=r"changed 'config.json'"):
        ocibridge.verify(one, VerifyOptions(against=two))


@pytest.mark.parametrize("name", ["digits.carton", "digits.mlarchive", "digits-stored.carton"])
@pytest.mark.parametrize("exact", [False, True])
def test_archives(tmp_path: Path, name: str, exact: bool) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    ocibridge.push(FIXTURES / name, reference, PushOptions(exact=exact))
    against = VerifyOptions(against=reference)
    assert ocibridge.verify(FIXTURES / name, against).verified
    ocibridge.pull(reference, tmp_path / "back")
    assert ocibridge.verify(tmp_path / "back", against).verified
    assert ocibridge.verify(reference, against).verified


def test_an_archive_is_not_another_one(tmp_path: Path) -> None:
    reference = f"oci:{tmp_path}/layout:v1"
    ocibridge.push(CARTON, reference, PushOptions(exact=True))
    with pytest.raises(IntegrityError, match=r"missing 'model.carton'|changed 'model.carton'"):
        ocibridge.verify(FIXTURES / "digits-stored.carton", VerifyOptions(against=reference))
    with pytest.raises(IntegrityError, match="is not"):
        ocibridge.verify(FIXTURES / "digits.mlarchive", VerifyOptions(against=reference))


def test_one_path_against_another(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert ocibridge.verify(tmp_path / "copy", VerifyOptions(against=folder)).verified


def test_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="--manifest-only reads none"):
        ocibridge.verify("localhost:1/a:b", VerifyOptions(manifest_only=True, against="localhost:1/a:c"))
