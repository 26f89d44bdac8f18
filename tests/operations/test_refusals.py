# SPDX-License-Identifier: Apache-2.0
"""What is refused leaves no tag, no file under its final name, no temporary file, and says one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge
from ocibridge.stores.layout import LayoutStore

from ..registry import RegistryServer

MISSING = "0" * 64


def one_sentence(exc: BaseException) -> str:
    text = str(exc)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_a_hash_that_differs_from_manifest_leaves_no_tag(
    carton: Callable[[str], Path], tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    source = carton("digits-unpacked")
    weight = source / "model" / "model.pt"
    data = bytearray(weight.read_bytes())
    data[1000] ^= 1
    weight.write_bytes(data)
    for target in (f"{registry.host}/{repository}:v1", f"oci:{tmp_path / 'layout'}:v1"):
        for layers in ("tar", "raw", "raw-files"):
            with pytest.raises(ocibridge.IntegrityError) as caught:
                ocibridge.push(source, target, ocibridge.PushOptions(layers=layers))
            assert "model/model.pt" in one_sentence(caught.value)
            with pytest.raises(ocibridge.NotFound):
                ocibridge.pull(target, tmp_path / "back.carton")
    assert not (tmp_path / "back.carton").exists()


def test_an_archive_push_that_fails_leaves_no_file(carton: Callable[[str], Path], tmp_path: Path) -> None:
    source = carton("digits-unpacked")
    (source / "model" / "model.pt").write_bytes(b"x")
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(ocibridge.OcibridgeError):
        ocibridge.push(source, f"oci-archive:{folder / 'x.tar'}:v1")
    assert [path.name for path in folder.iterdir() if not path.name.endswith(".lock")] == []


def test_linked_files_are_not_fetched_unless_asked(carton: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(ocibridge.FormatError, match="--fetch-links") as caught:
        ocibridge.push(carton("digits-links.carton"), f"oci:{tmp_path / 'layout'}:v1")
    one_sentence(caught.value)
    with pytest.raises(ocibridge.OcibridgeError):
        ocibridge.push(
            carton("digits-links.carton"),
            f"oci:{tmp_path / 'layout'}:v1",
            ocibridge.PushOptions(reading={"fetch_links": True, "links_hosts": ("models.example.com",)}),
        )
    assert not (tmp_path / "layout").exists()


@pytest.mark.parametrize("name", ["back.carton", "back"])
def test_an_existing_target_is_not_touched(name: str, carton: Callable[[str], Path], tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(carton("digits.carton"), target)
    back = tmp_path / name
    if name == "back":
        back.mkdir()
        (back / "MANIFEST").write_text("mine")
    else:
        back.write_text("mine")
    with pytest.raises(ocibridge.DestinationError, match=r"exists|'MANIFEST' in it is in the way"):
        ocibridge.pull(target, back)
    with pytest.raises(ocibridge.DestinationError, match=r"not written by ocibridge|did not write it"):
        ocibridge.pull(target, back, ocibridge.PullOptions(force=True))
    assert (back / "MANIFEST" if back.is_dir() else back).read_text() == "mine"
    ocibridge.pull(target, back, ocibridge.PullOptions(overwrite=True))
    ocibridge.verify(back)


@pytest.mark.parametrize("name", ["back.carton", "back"])
@pytest.mark.parametrize("damage", ["flip", "short", "missing"])
def test_a_damaged_store_gives_nothing(name: str, damage: str, carton: Callable[[str], Path], tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    pushed = ocibridge.push(carton("digits.carton"), target)
    largest = max(pushed.layers, key=lambda layer: layer.size)
    blob = tmp_path / "layout" / "blobs" / "sha256" / largest.digest[7:]
    blob.chmod(0o644)
    data = bytearray(blob.read_bytes())
    if damage == "missing":
        blob.unlink()
    else:
        data[5000] ^= 1
        blob.write_bytes(data[:-512] if damage == "short" else data)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ocibridge.OcibridgeError) as caught:
        ocibridge.pull(target, out / name)
    one_sentence(caught.value)
    assert list(out.iterdir()) == []
    with pytest.raises(ocibridge.OcibridgeError):
        ocibridge.verify(target)


def test_a_manifest_row_that_the_layers_do_not_have_is_found(carton: Callable[[str], Path], tmp_path: Path) -> None:
    """An artifact that lies consistently: every digest holds, but MANIFEST promises another model."""
    from dataclasses import replace

    from ocibridge.dialects.writing import PlanOptions, plan_manifest
    from ocibridge.formats.carton import CartonFormat
    from ocibridge.formats.carton.options import CartonReadOptions
    from ocibridge.io.content import BytesContent
    from ocibridge.transfer import publish

    model = CartonFormat().read(carton("digits.carton"), CartonReadOptions())
    forged = replace(
        model,
        files=tuple(
            each._replace(content=BytesContent(b"evil"), sha256=None) if each.path == "model/model.pt" else each
            for each in model.files
        ),
    )
    store = LayoutStore(tmp_path / "layout", create=True)
    publish(plan_manifest(forged, PlanOptions()), store, "v1")
    target = f"oci:{tmp_path / 'layout'}:v1"
    for name in ("back.carton", "back"):
        with pytest.raises(ocibridge.IntegrityError, match=r"model/model\.pt"):
            ocibridge.pull(target, tmp_path / name)
        assert not (tmp_path / name).exists()
    with pytest.raises(ocibridge.IntegrityError, match=r"model/model\.pt"):
        ocibridge.verify(target)


@pytest.mark.parametrize(
    ("source", "target", "kind", "word"),
    [
        ("missing.carton", "oci:x:v1", ocibridge.SourceError, "no such file"),
        ("empty", "oci:x:v1", ocibridge.OcibridgeError, "empty"),
        ("digits.carton", "nonsense", ocibridge.InvalidReference, "names no registry host"),
        ("digits.carton", "localhost:1/x:v1", ocibridge.NetworkError, "localhost:1"),
        ("digits.carton", f"oci:x@sha256:{MISSING}", ocibridge.UsageError, "not a digest"),
    ],
)
def test_likely_mistakes_of_a_push(
    source: str,
    target: str,
    kind: type[ocibridge.OcibridgeError],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    carton: Callable[[str], Path],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "digits.carton").write_bytes(carton("digits.carton").read_bytes())
    with pytest.raises(kind, match=word) as caught:
        ocibridge.push(source, target)
    one_sentence(caught.value)


@pytest.mark.parametrize(
    ("source", "kind", "word"),
    [
        ("oci:missing:v1", ocibridge.NotFound, "missing"),
        ("oci:layout:v2", ocibridge.NotFound, "v2"),
        (f"oci:layout@sha256:{MISSING}", ocibridge.NotFound, MISSING),
        ("oci-archive:missing.tar:v1", ocibridge.NotFound, "missing"),
    ],
)
def test_likely_mistakes_of_a_pull(
    source: str,
    kind: type[ocibridge.OcibridgeError],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    carton: Callable[[str], Path],
) -> None:
    monkeypatch.chdir(tmp_path)
    ocibridge.push(carton("digits.carton"), "oci:layout:v1")
    with pytest.raises(kind, match=word) as caught:
        ocibridge.pull(source, "back.carton")
    one_sentence(caught.value)
    assert not os.path.lexists("back.carton")


def test_a_missing_tag_in_a_registry(registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.NotFound, match="v9") as caught:
        ocibridge.pull(f"{registry.host}/{repository}:v9", tmp_path / "x")
    one_sentence(caught.value)
