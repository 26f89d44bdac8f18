# SPDX-License-Identifier: Apache-2.0
"""Thin cartons, identities proven from a manifest alone, and archives that are stored whole."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge import settings
from ocibridge.formats.carton.links import Links, parse_links
from ocibridge.formats.zip import read_directory
from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor
from ocibridge.stores.layout import LayoutStore

from ..formats import build
from ..interop import carton_client
from ..registry import PASSWORD, USER, RegistryServer
from ..translating import translate
from .conftest import FIXTURES, IDENTITY, MODEL_PT

CLIENT = pytest.mark.skipif(
    not (sys.platform == "linux" and platform.machine() == "x86_64" and (3, 11) <= sys.version_info < (3, 14)),
    reason="cartonml-nightly has wheels for Linux x86_64 and Python 3.11 to 3.13 only",
)
STAYS = {"carton.toml", "tensor_data/index.toml", "MANIFEST", "LINKS"}


@pytest.fixture
def raw(carton: Callable[[str], Path], registry: RegistryServer, repository: str) -> str:
    """A carton in the registry, each file a layer."""
    target = f"{registry.host}/{repository}:v1"
    ocibridge.push(carton("digits.carton"), target, ocibridge.PushOptions(layers="raw-files"))
    return target


def members(path: Path) -> set[str]:
    return {member.name for member in read_directory(path)}


def links(path: Path) -> Links:
    with zipfile.ZipFile(path) as archive:
        return parse_links(archive.read("LINKS"), "it", 1 << 20)


# Thin cartons.


@CLIENT
@pytest.mark.parametrize("everything", [False, True], ids=["weights", "everything"])
@pytest.mark.parametrize("dialect", ["cnai", "modelpack"])
def test_the_real_client_loads_a_thin_carton_from_the_registry(
    everything: bool, dialect: str, raw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if everything:
        monkeypatch.setattr(settings, "THIN_FILE", 0)
    raw = translate(raw, raw, ocibridge.ConvertOptions(dialect=dialect)).reference or ""
    thin = tmp_path / "thin.carton"
    report = ocibridge.pull(raw, thin, ocibridge.PullOptions(thin=True))
    assert (report.identity, report.format) == (IDENTITY, "carton")
    assert "model/model.pt" not in members(thin)
    assert members(thin) >= STAYS
    if everything:
        assert members(thin) == STAYS
    name = raw.partition("@")[0]
    assert links(thin).urls[MODEL_PT] == [f"http://{name.replace('/', '/v2/', 1)}/blobs/sha256:{MODEL_PT}"]
    assert "only linked" in report.warnings[0]
    assert carton_client.info(thin) == carton_client.info(FIXTURES / "digits.carton")


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_a_thin_carton_comes_back_whole(
    limit: int, raw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: RegistryServer
) -> None:
    monkeypatch.setattr(settings, "THIN_FILE", limit)
    thin = tmp_path / "thin.carton"
    ocibridge.pull(raw, thin, ocibridge.PullOptions(thin=True, writing={"zip_method": "zstd"}))
    files = {file.path: file for file in ocibridge.inspect(thin).files}
    linked = [path for path, file in files.items() if file.linked]
    assert linked == (["model/model.pt"] if limit else [path for path in files if path not in STAYS])
    assert files["model/model.pt"].sha256 == MODEL_PT
    checked = ocibridge.verify(thin)
    assert (checked.linked_count, checked.file_count) == (len(linked), len(files) - len(linked))
    assert "nothing is proven" in checked.warnings[-1]
    with pytest.raises(ocibridge.FormatError, match="--fetch-links"):
        ocibridge.convert(thin, tmp_path / "whole.carton")
    fetch: dict[str, Any] = {"reading": {"fetch_links": True, "links_hosts": (registry.host,)}}
    assert ocibridge.verify(thin, ocibridge.VerifyOptions(**fetch)).identity == IDENTITY
    back = ocibridge.push(thin, f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(**fetch))
    ocibridge.pull(back.reference, tmp_path / "back.carton")
    assert ocibridge.verify(tmp_path / "back.carton").identity == IDENTITY
    first = thin.read_bytes()
    ocibridge.pull(raw, thin, ocibridge.PullOptions(thin=True, force=True, writing={"zip_method": "zstd"}))
    assert thin.read_bytes() == first


def test_what_cannot_be_thin_is_one_sentence(
    raw: str, carton: Callable[[str], Path], tmp_path: Path, auth_registry: RegistryServer, repository: str
) -> None:
    mine = ocibridge.RegistryOptions(username=USER, password=PASSWORD)
    locked = f"{auth_registry.host}/{repository}:v1"
    ocibridge.push(carton("digits.carton"), locked, ocibridge.PushOptions(layers="raw-files"), registry=mine)
    tar = raw.replace(":v1", ":tar")
    ocibridge.push(carton("digits.carton"), tar)
    exact = raw.replace(":v1", ":exact")
    ocibridge.push(carton("digits.carton"), exact, ocibridge.PushOptions(exact=True))
    folder = raw.replace(":v1", ":folder")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.bin").write_bytes(b"x")
    ocibridge.push(tmp_path / "folder", folder, ocibridge.PushOptions(layers="raw-files"))
    layout = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(carton("digits.carton"), layout, ocibridge.PushOptions(layers="raw-files"))
    refused = [
        (layout, "x.carton", ocibridge.UsageError, "is in none"),
        (raw, "x", ocibridge.UsageError, "only an archive can be thin"),
        (tar, "x.carton", ocibridge.UsageError, "--layers raw-files"),
        (exact, "x.carton", ocibridge.UsageError, "without --exact"),
        (folder, "x.carton", ocibridge.FormatError, "is none of the cartons"),
        (locked, "x.carton", ocibridge.SourceError, "without a login"),
    ]
    for source, name, kind, word in refused:
        with pytest.raises(kind, match=word) as caught:
            ocibridge.pull(
                source, tmp_path / name, ocibridge.PullOptions(thin=True), registry=mine if source == locked else None
            )
        assert "\n" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "layout"]


# The identity from the manifest alone.


@pytest.mark.parametrize("name", ["digits.carton", "digits-stored.carton", "digits-unpacked"])
@pytest.mark.parametrize("dialect", ["cnai", "modelpack"])
def test_the_identity_without_a_blob(name: str, dialect: str, carton: Callable[[str], Path], tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    pushed = ocibridge.push(carton(name), target, ocibridge.PushOptions(layers="raw-files", dialect=dialect))
    keep = {pushed.digest[7:], _document(tmp_path)["config"]["digest"][7:]}
    for blob in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        if blob.name not in keep:
            blob.unlink()
    report = ocibridge.verify(target, ocibridge.VerifyOptions(manifest_only=True))
    assert (report.identity, report.size, report.warnings) == (IDENTITY, 0, [])
    assert "rebuilt from the digests of the layers" in report.proven[1]
    with pytest.raises(ocibridge.OcibridgeError):
        ocibridge.verify(target)


ODD: dict[str, Callable[[bytes], bytes]] = {
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "unsorted": lambda data: b"".join(reversed(data.splitlines(keepends=True))),
    "upper": lambda data: b"\n".join(
        path + b"=" + digest.upper() for path, _, digest in (row.rpartition(b"=") for row in data.splitlines())
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_manifest_is_the_one_blob_that_is_read(odd: str, tmp_path: Path) -> None:
    files = build.whole({"model/a.pt": b"weights", "misc/b": b"b"})
    manifest = ODD[odd](build.manifest_of(files))
    extra = [build.Raw(b"stray.txt", b"x")]
    source = build.carton(tmp_path / "odd.carton", files, manifest=manifest, extra=extra)
    target = f"oci:{tmp_path / 'layout'}:v1"
    pushed = ocibridge.push(source, target, ocibridge.PushOptions(layers="raw-files"))
    keep = {pushed.digest[7:], _document(tmp_path)["config"]["digest"][7:], hashlib.sha256(manifest).hexdigest()}
    for blob in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        if blob.name not in keep:
            blob.unlink()
    report = ocibridge.verify(target, ocibridge.VerifyOptions(manifest_only=True))
    assert report.identity == pushed.identity
    assert (report.file_count, report.size) == (4, len(manifest))
    assert ["stray.txt" in warning for warning in report.warnings] == [True]


def _document(tmp_path: Path) -> dict[str, Any]:
    with LayoutStore(tmp_path / "layout") as store:
        document: dict[str, Any] = json.loads(store.fetch_manifest("v1")[1])
    return document


@pytest.mark.parametrize("damage", ["changed", "missing", "renamed", "another", "no MANIFEST"])
def test_a_layer_that_is_not_the_one_of_manifest_is_named(
    damage: str, carton: Callable[[str], Path], tmp_path: Path
) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(carton("digits.carton"), target, ocibridge.PushOptions(layers="raw-files"))
    document = _document(tmp_path)
    layers = {each["annotations"]["org.cnai.model.filepath"]: each for each in document["layers"]}
    weight, word = layers["model/model.pt"], r"model/model\.pt"
    if damage == "changed":
        weight["digest"] = layers["carton.toml"]["digest"]
    elif damage == "missing":
        document["layers"].remove(weight)
    elif damage == "renamed":
        for key in ("org.cnai.model.filepath", "org.cncf.model.filepath", "org.opencontainers.image.title"):
            weight["annotations"][key] = "model/other.pt"
    elif damage == "another":
        document["annotations"]["org.ocibridge.identity"] = "carton:" + "0" * 64
        word = "was published as carton:0000"
    else:
        document["layers"].remove(layers["MANIFEST"])
        word = "no MANIFEST"
    with LayoutStore(tmp_path / "layout") as store:
        config = json.loads(store.read_blob(Descriptor.model_validate(document["config"]), 1 << 20))
        config["modelfs"]["diffIds"] = [each["digest"] for each in document["layers"]]
        data = json.dumps(config).encode()
        store.push_blob(Descriptor.of(data, "x/y"), BytesContent(data))
        document["config"] |= {"digest": Descriptor.of(data, "x/y").digest, "size": len(data)}
        store.push_manifest(json.dumps(document).encode(), MEDIA_TYPE_MANIFEST, "forged")
    kind = ocibridge.FormatError if damage == "no MANIFEST" else ocibridge.IntegrityError
    with pytest.raises(kind, match=word) as caught:
        ocibridge.verify(target.replace(":v1", ":forged"), ocibridge.VerifyOptions(manifest_only=True))
    assert "\n" not in str(caught.value)


def test_what_a_manifest_cannot_prove(carton: Callable[[str], Path], tmp_path: Path) -> None:
    place = f"oci:{tmp_path / 'layout'}"
    ocibridge.push(carton("digits.carton"), f"{place}:tar")
    ocibridge.push(carton("digits.carton"), f"{place}:exact", ocibridge.PushOptions(exact=True))
    for subject, word in (
        (f"{place}:tar", "raw-files"),
        (f"{place}:exact", "without --exact"),
        (str(carton("digits.carton")), "for artifacts"),
    ):
        with pytest.raises(ocibridge.UsageError, match=word):
            ocibridge.verify(subject, ocibridge.VerifyOptions(manifest_only=True))


# Archives that are stored whole.


@pytest.mark.parametrize("name", ["digits.carton", "digits-stored.carton"])
@pytest.mark.parametrize("dialect", ["cnai", "modelpack"])
def test_the_very_bytes_come_back(
    name: str, dialect: str, carton: Callable[[str], Path], tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    target = f"{registry.host}/{repository}:v1"
    data = carton(name).read_bytes()
    pushed = ocibridge.push(carton(name), target, ocibridge.PushOptions(exact=True, dialect=dialect))
    assert pushed.identity == IDENTITY
    (layer,) = pushed.layers
    assert layer.digest == "sha256:" + hashlib.sha256(data).hexdigest()
    assert layer.media_type.endswith(".model.weight.v1.raw")
    found = ocibridge.inspect(target)
    assert (found.identity, [each.path for each in found.files]) == (IDENTITY, ["model.carton"])
    verified = ocibridge.verify(target)
    assert verified.identity == IDENTITY
    assert any(IDENTITY in sentence for sentence in verified.proven)

    back = tmp_path / "back.carton"
    assert ocibridge.pull(target, back).identity == IDENTITY
    assert back.read_bytes() == data
    folder = ocibridge.pull(target, tmp_path / "back")
    assert folder.identity == IDENTITY
    assert ocibridge.verify(tmp_path / "back").identity == IDENTITY
    assert (tmp_path / "back" / "model" / "assets" / "labels.txt").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "back.carton"]
    again = ocibridge.push(back, target, ocibridge.PushOptions(exact=True, dialect=dialect))
    assert again.digest == pushed.digest


@CLIENT
def test_the_real_client_loads_the_blob_of_a_whole_carton(
    carton: Callable[[str], Path], registry: RegistryServer, repository: str
) -> None:
    pushed = ocibridge.push(
        carton("digits.carton"), f"{registry.host}/{repository}:v1", ocibridge.PushOptions(exact=True)
    )
    url = f"http://{registry.host}/v2/{repository}/blobs/{pushed.layers[0].digest}"
    assert json.loads(carton_client.ask("info", url)) == carton_client.info(carton("digits.carton"))


def test_a_whole_carton_through_the_draft(carton: Callable[[str], Path], tmp_path: Path) -> None:
    place = f"oci:{tmp_path / 'layout'}"
    ocibridge.push(carton("digits.carton"), f"{place}:v1", ocibridge.PushOptions(exact=True))
    there = translate(f"{place}:v1", f"{place}:v2", ocibridge.ConvertOptions(dialect="draft"))
    ocibridge.pull(there.target, tmp_path / "back.carton")
    assert (tmp_path / "back.carton").read_bytes() == carton("digits.carton").read_bytes()


@pytest.mark.parametrize("name", ["back.carton", "back"])
def test_a_whole_carton_that_lies(name: str, carton: Callable[[str], Path], tmp_path: Path) -> None:
    """The digests hold, but the archive is not the carton that was promised, or is none."""
    place = f"oci:{tmp_path / 'layout'}"
    ocibridge.push(carton("digits.carton"), f"{place}:v1", ocibridge.PushOptions(exact=True))
    other = build.carton(tmp_path / "other", {"model/a.pt": b"w"}).read_bytes()
    damaged = build.carton(tmp_path / "other", {"model/a.pt": b"w"}, manifest=b"x=" + b"0" * 64 + b"\n").read_bytes()
    for number, (data, promise) in enumerate(((other, IDENTITY), (damaged, None), (b"no zip", None))):
        document = _document(tmp_path)
        (layer,) = document["layers"]
        if promise is None:
            del document["annotations"]["org.ocibridge.identity"]
        with LayoutStore(tmp_path / "layout") as store:
            config = json.loads(store.read_blob(Descriptor.model_validate(document["config"]), 1 << 20))
            layer["digest"], layer["size"] = Descriptor.of(data, "x/y").digest, len(data)
            config["modelfs"]["diffIds"] = [layer["digest"]]
            text = json.dumps(config).encode()
            for blob in (text, data):
                store.push_blob(Descriptor.of(blob, "x/y"), BytesContent(blob))
            document["config"] |= {"digest": Descriptor.of(text, "x/y").digest, "size": len(text)}
            store.push_manifest(json.dumps(document).encode(), MEDIA_TYPE_MANIFEST, f"forged{number}")
        out = tmp_path / f"out{number}"
        out.mkdir()
        for attempt in (
            lambda number=number, out=out: ocibridge.pull(f"{place}:forged{number}", out / name),
            lambda number=number: ocibridge.verify(f"{place}:forged{number}"),
        ):
            with pytest.raises((ocibridge.IntegrityError, ocibridge.FormatError)) as caught:
                attempt()
            assert "\n" not in str(caught.value)
        assert list(out.iterdir()) == []


def test_what_cannot_be_carried_whole(carton: Callable[[str], Path], tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    refused: list[tuple[Path, dict[str, Any], str]] = [
        (carton("digits-unpacked"), {}, "is for archives"),
        (carton("digits.carton"), {"layers": "tar"}, "neither compressed nor in a tar layer"),
        (carton("digits.carton"), {"compress": "gzip"}, "neither compressed nor in a tar layer"),
        (carton("digits.carton"), {"dialect": "draft"}, "no name for raw layers"),
        (carton("digits-links.carton"), {"reading": {"fetch_links": True}}, "without the files that it links to"),
        (carton("digits-links.carton"), {}, "only linked"),
    ]
    for source, options, word in refused:
        with pytest.raises(ocibridge.OcibridgeError, match=word) as caught:
            ocibridge.push(source, target, ocibridge.PushOptions(exact=True, **options))
        assert "\n" not in str(caught.value)
    wrong = build.manifest_of(build.whole({"model/a": b"other"}))
    source = build.carton(tmp_path / "wrong.carton", {"model/a": b"a"}, manifest=wrong)
    with pytest.raises(ocibridge.IntegrityError, match="model/a"):
        ocibridge.push(source, target, ocibridge.PushOptions(exact=True))
    assert not (tmp_path / "layout").exists()
    ocibridge.push(carton("digits.carton"), target, ocibridge.PushOptions(exact=True))
    with pytest.raises(ocibridge.UsageError, match="--zip-method"):
        ocibridge.pull(target, tmp_path / "x.carton", ocibridge.PullOptions(writing={"zip_method": "zstd"}))
    with pytest.raises(ocibridge.DestinationError, match="exists"):
        ocibridge.pull(target, source)
