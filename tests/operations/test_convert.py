# SPDX-License-Identifier: Apache-2.0
"""An artifact in another dialect: what moves, and what stays."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.stores.layout import LayoutStore

from ..registry import RegistryServer
from ..translating import translate
from .conftest import IDENTITY

DIALECTS = ("cnai", "draft", "modelpack")
PAIRS = [(one, other) for one in DIALECTS for other in DIALECTS if one != other]


def actions(report: ocibridge.ConvertReport) -> set[str]:
    return {layer.action for layer in report.layers}


def digests(report: ocibridge.ConvertReport | ocibridge.PushReport) -> list[str]:
    return [layer.digest for layer in report.layers]


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_there_and_back_in_one_repository(
    one: str,
    other: str,
    compress: str,
    carton: Callable[[str], Path],
    tmp_path: Path,
    registry: RegistryServer,
    repository: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = f"{registry.host}/{repository}"
    pushed = ocibridge.push(
        carton("digits.carton"), f"{place}:v1", ocibridge.PushOptions(dialect=one, compress=compress)
    )
    with caplog.at_level(logging.INFO, "httpx"):
        there = translate(f"{place}:v1", f"{place}:{other}", ocibridge.ConvertOptions(dialect=other))
    # cnai and modelpack have the same config object, so not even that is sent between them.
    sent = [record.getMessage() for record in caplog.records if "PUT" in record.getMessage()]
    assert sum("/blobs/uploads/" in each for each in sent) == ("draft" in (one, other))
    assert sum("/manifests/" in each for each in sent) == 1
    assert not any("GET" in record.getMessage() and "/blobs/" in record.getMessage() for record in caplog.records[2:])

    assert actions(there) == {"skipped"}
    assert (there.source, there.source_dialect, there.dialect) == (pushed.reference, one, other)
    assert digests(there) == digests(pushed)
    assert there.warnings == []
    direct = ocibridge.push(
        carton("digits.carton"),
        f"oci:{tmp_path / 'layout'}:v1",
        ocibridge.PushOptions(dialect=other, compress=compress),
    )
    assert there.digest == direct.digest
    back = translate(there.target, f"{place}:back", ocibridge.ConvertOptions(dialect=one))
    assert back.digest == pushed.digest
    assert ocibridge.inspect(there.target).dialect == other
    assert ocibridge.verify(there.target).identity == IDENTITY
    assert ocibridge.pull(f"{place}:{other}", tmp_path / "back").identity == IDENTITY
    assert (tmp_path / "back" / "model" / "assets" / "labels.txt").is_symlink()


@pytest.mark.parametrize("layers", ["tar", "raw", "raw-files"])
def test_another_repository_of_the_host_mounts(
    layers: str, carton: Callable[[str], Path], registry: RegistryServer, repository: str
) -> None:
    source = f"{registry.host}/{repository}:v1"
    pushed = ocibridge.push(carton("digits.carton"), source, ocibridge.PushOptions(layers=layers))
    there = translate(source, f"{registry.host}/{repository}-other:v1", ocibridge.ConvertOptions(dialect="modelpack"))
    assert actions(there) == {"mounted"}
    assert digests(there) == digests(pushed)
    assert not any(layer.media_type.endswith(".v1") for layer in there.layers)
    back = translate(there.target, source.replace(":v1", ":back"), ocibridge.ConvertOptions(dialect="cnai"))
    assert back.digest == pushed.digest


@pytest.mark.parametrize("kind", ["oci", "oci-archive"])
def test_another_store_is_copied_once(
    kind: str,
    carton: Callable[[str], Path],
    tmp_path: Path,
    registry: RegistryServer,
    repository: str,
) -> None:
    source = f"{registry.host}/{repository}:v1"
    pushed = ocibridge.push(carton("digits.carton"), source)
    there = translate(source, f"{kind}:{tmp_path / 'there'}:v1", ocibridge.ConvertOptions(dialect="draft"))
    assert actions(there) == {"uploaded"}
    assert digests(there) == digests(pushed)
    assert ocibridge.verify(there.target).identity == IDENTITY
    # The same archive or folder again, and from there into another repository.
    again = translate(there.target, f"{kind}:{tmp_path / 'there'}:v2", ocibridge.ConvertOptions(dialect="modelpack"))
    assert actions(again) == {"skipped"}
    back = translate(again.target, f"{registry.host}/{repository}-back:v1", ocibridge.ConvertOptions(dialect="cnai"))
    assert (actions(back), back.digest) == ({"uploaded"}, pushed.digest)


@pytest.mark.parametrize("layers", ["raw", "raw-files"])
@pytest.mark.parametrize("same", [True, False], ids=["same", "other"])
@pytest.mark.parametrize("kind", ["registry", "oci-archive"])
def test_raw_layers_become_tar_layers_of_the_draft(
    layers: str,
    same: bool,
    kind: str,
    carton: Callable[[str], Path],
    tmp_path: Path,
    registry: RegistryServer,
    repository: str,
) -> None:
    place = f"{registry.host}/{repository}" if kind == "registry" else f"oci-archive:{tmp_path / 'it.tar'}"
    ocibridge.push(carton("digits.carton"), f"{place}:v1", ocibridge.PushOptions(layers=layers, dialect="modelpack"))
    there = translate(
        f"{place}:v1", f"{place}:v2" if same else f"oci:{tmp_path / 'x'}:v1", ocibridge.ConvertOptions(dialect="draft")
    )
    direct = ocibridge.push(
        carton("digits.carton"), f"oci:{tmp_path / 'direct'}:v1", ocibridge.PushOptions(dialect="draft")
    )
    assert there.digest == direct.digest
    assert there.identity == IDENTITY
    assert ocibridge.pull(there.target, tmp_path / "back.carton").identity == IDENTITY


def test_what_no_dialect_can_say_is_one_sentence(carton: Callable[[str], Path], tmp_path: Path) -> None:
    place = f"oci:{tmp_path / 'layout'}"
    ocibridge.push(carton("digits.carton"), f"{place}:zstd", ocibridge.PushOptions(layers="raw", compress="zstd"))
    with pytest.raises(ocibridge.UsageError, match=r"no name for tar\+zstd layers; pull the model") as caught:
        translate(f"{place}:zstd", f"oci:{tmp_path / 'new'}:v1", ocibridge.ConvertOptions(dialect="draft"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ocibridge.UsageError, match="a tag, not a digest"):
        translate(f"{place}:zstd", f"{place}@sha256:{'0' * 64}", ocibridge.ConvertOptions(dialect="draft"))
    with pytest.raises(ocibridge.UsageError, match="--dialect cannot be 'klingon'"):
        translate(f"{place}:zstd", f"{place}:v2", ocibridge.ConvertOptions(dialect="klingon"))
    with pytest.raises(ocibridge.NotFound):
        translate(f"{place}:v9", f"{place}:v2", ocibridge.ConvertOptions(dialect="draft"))


def test_the_same_dialect_is_a_copy_byte_for_byte(carton: Callable[[str], Path], tmp_path: Path) -> None:
    pushed = ocibridge.push(carton("digits.carton"), f"oci:{tmp_path / 'one'}:v1")
    there = translate(pushed.reference, f"oci:{tmp_path / 'other'}:v1", ocibridge.ConvertOptions(dialect="cnai"))
    assert there.digest == pushed.digest
    assert ocibridge.verify(f"oci:{tmp_path / 'other'}:v1").identity == IDENTITY


@pytest.mark.parametrize("layers", ["tar", "raw-files"])
def test_a_damaged_source_leaves_no_tag(layers: str, carton: Callable[[str], Path], tmp_path: Path) -> None:
    pushed = ocibridge.push(carton("digits.carton"), f"oci:{tmp_path / 'one'}:v1", ocibridge.PushOptions(layers=layers))
    largest = max(pushed.layers, key=lambda layer: layer.size)
    blob = tmp_path / "one" / "blobs" / "sha256" / largest.digest[7:]
    blob.chmod(0o644)
    data = bytearray(blob.read_bytes())
    data[5000] ^= 1
    blob.write_bytes(data)
    with pytest.raises(ocibridge.IntegrityError) as caught:
        translate(pushed.reference, f"oci:{tmp_path / 'other'}:v1", ocibridge.ConvertOptions(dialect="draft"))
    assert "\n" not in str(caught.value)
    with LayoutStore(tmp_path / "other") as store:
        assert store.tags() == []


def test_a_key_that_is_lost_is_named(carton: Callable[[str], Path], tmp_path: Path) -> None:
    from ocibridge.io.content import BytesContent
    from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor

    place = f"oci:{tmp_path / 'layout'}"
    pushed = ocibridge.push(carton("digits.carton"), f"{place}:v1", ocibridge.PushOptions(dialect="modelpack"))
    with LayoutStore(tmp_path / "layout") as store:
        document: dict[str, Any] = json.loads(store.fetch_manifest("v1")[1])
        config = json.loads(store.read_blob(Descriptor.model_validate(document["config"]), 1 << 20))
        config["config"]["capabilities"] = {"reasoning": True}
        data = json.dumps(config).encode()
        descriptor = Descriptor.of(data, document["config"]["mediaType"])
        store.push_blob(descriptor, BytesContent(data))
        document["config"] |= {"digest": descriptor.digest, "size": descriptor.size}
        store.push_manifest(json.dumps(document).encode(), MEDIA_TYPE_MANIFEST, "foreign")
    report = translate(f"{place}:foreign", f"{place}:cnai", ocibridge.ConvertOptions(dialect="cnai"))
    assert [warning.partition(" is not")[0] for warning in report.warnings] == [
        "the key config.capabilities of the config"
    ]
    assert digests(report) == digests(pushed)
    assert translate(f"{place}:foreign", f"{place}:same", ocibridge.ConvertOptions(dialect="modelpack")).warnings == []


def test_a_password_for_the_target_does_not_reach_another_source() -> None:
    from ocibridge.oci import parse_reference
    from ocibridge.operations.sources import other_side

    mine = ocibridge.RegistryOptions(username="me", password="secret", insecure=True)
    target = parse_reference("one.example/x:v1")
    assert other_side(parse_reference("ONE.example/y:v1"), target, mine) is mine
    assert other_side(parse_reference("two.example/x:v1"), parse_reference("oci:x"), mine) is mine
    assert other_side(parse_reference("two.example/x:v1"), target, mine) == ocibridge.RegistryOptions()
    assert other_side(parse_reference("two.example/x:v1"), target, None) is None
