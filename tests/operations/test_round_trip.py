# SPDX-License-Identifier: Apache-2.0
"""The main job: a genuine carton goes out and comes back with the same manifest hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ocibridge

from ..registry import RegistryServer
from ..trees import paths_in
from .conftest import CARTONS, IDENTITY

LINKS = ocibridge.PushOptions(reading={"fetch_links": True, "links_hosts": ("127.0.0.1",)})
PLACES = ("registry", "oci", "oci-archive")
OPTIONS: tuple[dict[str, Any], ...] = (
    {"layers": "tar"},
    {"layers": "raw"},
    {"layers": "raw-files"},
    {"compress": "gzip"},
    {"compress": "zstd", "layers": "raw"},
)


def place(kind: str, tmp_path: Path, registry: RegistryServer, repository: str) -> str:
    return {
        "registry": f"{registry.host}/{repository}:v1",
        "oci": f"oci:{tmp_path / 'layout'}:v1",
        "oci-archive": f"oci-archive:{tmp_path / 'layout.tar'}:v1",
    }[kind]


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): f"-> {path.readlink()}"
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths_in(folder)
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("name", CARTONS)
def test_every_fixture_as_a_carton_and_as_a_folder(
    kind: str,
    name: str,
    carton: Callable[[str], Path],
    tmp_path: Path,
    registry: RegistryServer,
    repository: str,
) -> None:
    target = place(kind, tmp_path, registry, repository)
    pushed = ocibridge.push(carton(name), target, LINKS)
    assert pushed.identity == IDENTITY
    as_carton = ocibridge.pull(target, tmp_path / "back.carton")
    as_folder = ocibridge.pull(pushed.reference, tmp_path / "back")
    assert (as_carton.identity, as_folder.identity) == (IDENTITY, IDENTITY)
    for path in (tmp_path / "back.carton", tmp_path / "back"):
        assert ocibridge.verify(path).identity == IDENTITY
        assert ocibridge.inspect(path).identity == IDENTITY
    if name != "digits-links.carton":  # the client's shrink has made a copy of the symlink
        assert tree(tmp_path / "back") == tree(carton("digits-unpacked"))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_encoding(
    options: dict[str, Any],
    carton: Callable[[str], Path],
    tmp_path: Path,
    registry: RegistryServer,
    repository: str,
) -> None:
    target = place("registry", tmp_path, registry, repository)
    pushed = ocibridge.push(carton("digits.carton"), target, ocibridge.PushOptions(**options))
    assert ocibridge.verify(target).identity == IDENTITY
    for method in ("stored", "deflate", "zstd"):
        back = tmp_path / f"{method}.carton"
        assert ocibridge.pull(target, back, ocibridge.PullOptions(writing={"zip_method": method})).identity == IDENTITY
        again = ocibridge.push(back, target, ocibridge.PushOptions(**options))
        assert again.digest == pushed.digest
        assert {layer.action for layer in again.layers} == {"skipped"}


def test_a_pulled_carton_is_the_same_file_each_time_and_in_every_layer_form(
    carton: Callable[[str], Path], tmp_path: Path
) -> None:
    found = set()
    for number, options in enumerate(OPTIONS):
        pushed = ocibridge.push(
            carton("digits.carton"), f"oci:{tmp_path / 'layout'}:{number}", ocibridge.PushOptions(**options)
        )
        back = tmp_path / f"{number}.carton"
        ocibridge.pull(pushed.reference, back)
        found.add(hashlib.sha256(back.read_bytes()).hexdigest())
    assert found == {hashlib.sha256(carton("digits-stored.carton").read_bytes()).hexdigest()}


def test_from_registry_to_layout_the_digest_stays(
    carton: Callable[[str], Path], tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    digests = {
        ocibridge.push(carton(name), place(kind, tmp_path, registry, repository), LINKS).digest
        for kind in PLACES
        for name in ("digits.carton", "digits-stored.carton", "digits-unpacked")
    }
    assert len(digests) == 1


def test_inspect_tells_the_same_of_path_and_artifact(carton: Callable[[str], Path], tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(carton("digits.carton"), target)
    here, there = ocibridge.inspect(carton("digits.carton")), ocibridge.inspect(target)
    assert here.info == there.info
    assert here.origin == there.origin
    assert here.identity == there.identity
    rows = [
        sorted((each.path, each.size, each.sha256, each.symlink, each.role) for each in one.files)
        for one in (here, there)
    ]
    assert rows[0] == rows[1]


def test_pull_as_decides_over_the_name(carton: Callable[[str], Path], tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(carton("digits.carton"), target)
    assert ocibridge.pull(target, tmp_path / "x.carton", ocibridge.PullOptions(as_format="folder")).format == "folder"
    assert (tmp_path / "x.carton").is_dir()
    assert ocibridge.pull(target, tmp_path / "y", ocibridge.PullOptions(as_format="carton")).format == "carton"
    assert (tmp_path / "y").is_file()
    assert ocibridge.verify(tmp_path / "y").identity == IDENTITY
