# SPDX-License-Identifier: Apache-2.0
"""Model folders go out and come back file by file."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

import ocibridge

from ..registry import RegistryServer
from ..trees import paths_in
from .conftest import FIXTURES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "hf-digits"
    with tarfile.open(FIXTURES / "hf-digits.tar") as archive:
        archive.extractall(path, filter="data")
    return path


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths_in(folder)
        if path.is_file()
    }


@pytest.mark.parametrize("dialect", ["cnai", "modelpack"])
@pytest.mark.parametrize("layers", ["tar", "raw", "raw-files"])
def test_a_hugging_face_folder(
    layers: str, dialect: str, folder: Path, tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    expected = json.loads((FIXTURES / "fixtures.json").read_text(encoding="utf-8"))["fixtures"]
    (entry,) = (each for each in expected if each["file"] == "hf-digits.tar")
    target = f"{registry.host}/{repository}:v1"
    pushed = ocibridge.push(folder, target, ocibridge.PushOptions(layers=layers, dialect=dialect))
    ocibridge.pull(target, tmp_path / "back")
    assert tree(tmp_path / "back") == tree(folder)
    assert set(tree(folder).values()) <= set(json.dumps(entry).split('"'))
    assert (
        ocibridge.push(tmp_path / "back", target, ocibridge.PushOptions(layers=layers, dialect=dialect)).digest
        == pushed.digest
    )
    assert ocibridge.verify(target).digest == pushed.digest


def test_the_metadata_of_the_headers_is_in_the_artifact(folder: Path, tmp_path: Path) -> None:
    ocibridge.push(folder, f"oci:{tmp_path / 'layout'}:v1")
    here, there = ocibridge.inspect(folder), ocibridge.inspect(f"oci:{tmp_path / 'layout'}:v1")
    assert here.info == there.info
    assert (there.info.format, there.info.param_size, there.info.licenses) == ("safetensors", "9.3K", ["MIT"])


def test_roles_of_the_user_come_first(folder: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(
        folder, target, ocibridge.PushOptions(reading={"roles": [("*.json", "dataset"), ("config.json", "code")]})
    )
    roles = {file.path: file.role for file in ocibridge.inspect(target).files}
    assert roles["config.json"] == "dataset"
    assert roles["README.md"] == "doc"
