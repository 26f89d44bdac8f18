# SPDX-License-Identifier: Apache-2.0
"""MLSteam archives go out and come back byte for byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import ocibridge

from ..registry import RegistryServer
from ..trees import paths_in
from .conftest import FIXTURES

ARCHIVES = {
    each["file"]: each
    for each in json.loads((FIXTURES / "fixtures.json").read_text(encoding="utf-8"))["fixtures"]
    if each["file"].endswith(".mlarchive")
}


@pytest.mark.parametrize("layers", ["tar", "raw", "raw-files"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_every_fixture(name: str, layers: str, tmp_path: Path, registry: RegistryServer, repository: str) -> None:
    target = f"{registry.host}/{repository}:v1"
    pushed = ocibridge.push(FIXTURES / name, target, ocibridge.PushOptions(layers=layers))
    back = tmp_path / name
    pulled = ocibridge.pull(pushed.reference, back)
    assert (pulled.identity, pulled.note) == (pushed.identity, "exact")
    assert hashlib.sha256(back.read_bytes()).hexdigest() == ARCHIVES[name]["sha256"]
    assert ocibridge.verify(target).identity == pushed.identity
    assert ocibridge.verify(back).identity == pushed.identity
    assert ocibridge.push(back, target, ocibridge.PushOptions(layers=layers)).digest == pushed.digest


def test_the_members_are_those_of_the_fixture(tmp_path: Path) -> None:
    for name in ("digits.mlarchive", "digits-2024.mlarchive"):
        target = f"oci:{tmp_path / name}:v1"
        ocibridge.push(FIXTURES / name, target)
        ocibridge.pull(target, tmp_path / "out", ocibridge.PullOptions(force=True))
        members = ARCHIVES[name]["identity"]["members"]
        found = {
            path.relative_to(tmp_path / "out").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths_in(tmp_path / "out")
            if path.is_file()
        }
        assert found == members


def test_the_keep_archive_option(tmp_path: Path) -> None:
    pushed = ocibridge.push(
        FIXTURES / "digits.mlarchive", f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(exact=True)
    )
    pulled = ocibridge.pull(pushed.reference, tmp_path / "back.mlarchive")
    assert pulled.note == "exact"
    assert (tmp_path / "back.mlarchive").read_bytes() == (FIXTURES / "digits.mlarchive").read_bytes()


def test_a_key_file_is_never_a_source(tmp_path: Path) -> None:
    with pytest.raises(ocibridge.OcibridgeError, match="key"):
        ocibridge.push(FIXTURES / "digits-encrypted.enckey", f"oci:{tmp_path / 'x'}:v1")
