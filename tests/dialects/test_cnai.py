# SPDX-License-Identifier: Apache-2.0
"""The CNAI dialect, as seed 001 has it."""

import hashlib
import json
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.dialects.base import StoredArtifact
from ocibridge.dialects.choices import Compress, Layers
from ocibridge.dialects.reading import parse_manifest, read_artifact
from ocibridge.dialects.writing import PlanOptions, plan_manifest
from ocibridge.errors import FormatError, LimitError, UsageError
from ocibridge.layers import BuiltManifest, Layer, describe
from ocibridge.model import Model, Role
from ocibridge.settings import SMALL_FILE, Limits

from .models import SMALL, file

PREFIX = "application/vnd.cnai.model."
GOLDEN = {
    "tar": "393950d0ae0d148b548fd6a6ba1777fc42cc83d28c7102e25e47448d31f80ed9",
    "raw": "0d6d065a14287406031919769fb45c1c0d1b3e1f88d39d8bcfb23b8e0579a094",
    "raw-files": "c899a23fb480f57bc6b4a66f4a7a785fa545228ac7318050c1e919fecb0003c2",
}


def build_manifest(model: Model = SMALL, **options: Any) -> BuiltManifest:
    plan = plan_manifest(model, PlanOptions(**options))
    return plan.build([describe(layer) for layer in plan.layers if isinstance(layer, Layer)])


def manifest(model: Model = SMALL, **options: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(build_manifest(model, **options).manifest)
    return document


def read(sealed: BuiltManifest) -> StoredArtifact:
    return read_artifact(parse_manifest(sealed.manifest, "it"), sealed.config, "it")


def test_the_types_that_the_seed_requires() -> None:
    document = manifest()
    assert document["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert document["artifactType"] == PREFIX + "manifest.v1+json"
    assert document["config"]["mediaType"] == PREFIX + "config.v1+json"
    assert list(document) == ["schemaVersion", "mediaType", "artifactType", "config", "layers", "annotations"]


def test_weights_readme_and_license_stand_alone_and_the_rest_shares_a_layer_per_role() -> None:
    found = [
        (layer["mediaType"].removeprefix(PREFIX), layer["annotations"].get("org.cnai.model.filepath"))
        for layer in manifest()["layers"]
    ]
    assert found == [
        ("weight.config.v1.tar", None),
        ("weight.v1.tar", "model-1.safetensors"),
        ("weight.v1.tar", "model-2.safetensors"),
        ("code.v1.tar", "run.py"),
        ("dataset.v1.tar", None),
        ("doc.v1.tar", "notes.txt"),
        ("doc.v1.tar", "LICENSE"),
        ("doc.v1.tar", "README.md"),
    ]


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("compress", list(Compress))
def test_all_tar_media_types(role: Role, compress: Compress) -> None:
    model = Model("folder", (file("x", role, b"x"),))
    suffix = "" if compress is Compress.NONE else f"+{compress.value}"
    assert manifest(model, compress=compress)["layers"][0]["mediaType"] == f"{PREFIX}{role.value}.v1.tar{suffix}"


def test_raw_is_the_bare_weight_type_of_the_seed() -> None:
    types = {layer["mediaType"].removeprefix(PREFIX) for layer in manifest(layers=Layers.RAW)["layers"]}
    assert types == {"weight.v1", "weight.config.v1.tar", "code.v1.tar", "dataset.v1.tar", "doc.v1.tar"}


def test_raw_files_keep_their_own_digests_and_the_order_of_the_model() -> None:
    layers = manifest(layers=Layers.RAW_FILES)["layers"]
    assert [layer["annotations"]["org.cnai.model.filepath"] for layer in layers] == [each.path for each in SMALL.files]
    assert layers[2]["mediaType"] == PREFIX + "weight.config.v1.raw"
    assert layers[2]["digest"] == "sha256:" + hashlib.sha256(b"{}").hexdigest()


def test_annotations_of_a_single_file() -> None:
    annotations = manifest()["layers"][1]["annotations"]
    assert annotations["org.opencontainers.image.title"] == "model-1.safetensors.tar"
    assert list(annotations) == sorted(annotations)
    metadata = json.loads(annotations["org.cnai.model.file.metadata+json"])
    assert list(metadata.items()) == [
        ("name", "model-1.safetensors"),
        ("mode", 0o644),
        ("uid", 0),
        ("gid", 0),
        ("size", 2000),
        ("mtime", "1970-01-01T00:00:00Z"),
        ("typeflag", 0),
    ]


def test_a_guessed_role_is_marked() -> None:
    marked = {
        layer["annotations"]["org.cnai.model.filepath"]: layer["annotations"].get(
            "org.cnai.model.file.mediatype.untested"
        )
        for layer in manifest(layers=Layers.RAW_FILES)["layers"]
    }
    assert {path for path, mark in marked.items() if mark} == {"notes.txt"}


def test_large_files_do_not_share_a_layer() -> None:
    big = file("big.json", Role.WEIGHT_CONFIG, bytes(SMALL_FILE))
    layers = manifest(Model("folder", (big, *SMALL.files)))["layers"]
    assert layers[1]["annotations"]["org.cnai.model.filepath"] == "big.json"


def test_the_config_has_the_order_of_the_go_type_and_only_keys_of_the_schema() -> None:
    config = json.loads(build_manifest().config)
    assert list(config) == ["descriptor", "modelfs", "config"]
    assert list(config["descriptor"]) == [
        "authors",
        "family",
        "name",
        "docURL",
        "sourceURL",
        "version",
        "revision",
        "vendor",
        "licenses",
        "title",
        "description",
    ]
    assert list(config["config"]) == ["architecture", "format", "paramSize", "precision", "quantization"]
    assert config["modelfs"]["type"] == "layers"
    assert len(config["modelfs"]["diffIds"]) == len(manifest()["layers"])


def test_diff_ids_are_those_of_the_uncompressed_tar() -> None:
    plain = json.loads(build_manifest().config)["modelfs"]["diffIds"]
    for compress in (Compress.GZIP, Compress.ZSTD):
        assert json.loads(build_manifest(compress=compress).config)["modelfs"]["diffIds"] == plain
    assert plain == [layer["digest"] for layer in manifest()["layers"]]


def test_go_would_write_the_same_bytes() -> None:
    assert b"\\u003csmall\\u003e model \\u0026 more" in build_manifest().config
    assert b": " not in build_manifest().manifest.split(b'"annotations"')[0]


def test_nothing_of_today_is_in_it() -> None:
    assert b"created" not in build_manifest().manifest.lower()
    stamped = build_manifest(created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
    assert json.loads(stamped.config)["descriptor"]["createdAt"] == "2026-01-02T03:04:05Z"
    created = json.loads(stamped.manifest)["annotations"]["org.opencontainers.image.created"]
    assert created == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize("layers", list(Layers))
def test_golden_manifest(layers: Layers) -> None:
    assert hashlib.sha256(build_manifest(layers=layers).manifest).hexdigest() == GOLDEN[layers.value]


@pytest.mark.parametrize("layers", list(Layers))
@pytest.mark.parametrize("compress", list(Compress))
def test_reading_gives_back_what_was_written(layers: Layers, compress: Compress) -> None:
    found = read(build_manifest(layers=layers, compress=compress))
    assert (found.dialect, found.model.format, found.model.complete) == ("cnai", "folder", True)
    assert found.model.info == SMALL.info
    assert found.model.origin == SMALL.origin
    rows = {each.path: (each.role, each.size, each.sha256, each.symlink) for each in found.model.files}
    contents = {"data/alias.bin": b"\0\1", "README.md": b"# read me"}
    for each in SMALL.files:
        role, size, sha256, symlink = rows[each.path]
        assert (role, size, symlink) == (each.role, each.size, each.symlink)
        if each.path in contents:
            assert sha256 == hashlib.sha256(contents[each.path]).hexdigest()
    assert len(rows) == len(SMALL.files)


def test_user_annotations() -> None:
    untitled = replace(SMALL, info=replace(SMALL.info, title=None, name=None))
    document = manifest(untitled, annotations={"org.opencontainers.image.title": "mine", "x": "y"})
    assert document["annotations"]["org.opencontainers.image.title"] == "mine"
    assert document["annotations"]["x"] == "y"
    keys = list(document["annotations"])
    assert all(one < other for one, other in pairwise(keys))


def test_what_the_model_says_of_itself_cannot_be_said_again() -> None:
    assert manifest(annotations={"org.opencontainers.image.title": "Small"}) == manifest()
    with pytest.raises(UsageError, match="already 'Small', from the metadata of the model; leave it out"):
        manifest(annotations={"org.opencontainers.image.title": "mine"})


@pytest.mark.parametrize(
    "key", ["org.ocibridge.identity", "org.ocibridge.x", "org.cnai.model.filepath", "org.cncf.model.y"]
)
def test_keys_of_ocibridge_are_refused_before_anything_is_read(key: str, tmp_path: Path) -> None:
    options = ocibridge.PushOptions(annotations={key: "hack"})
    with pytest.raises(UsageError, match=f"the annotation '{key}' is written by ocibridge itself; leave it out"):
        ocibridge.push(tmp_path / "nothing.carton", f"oci:{tmp_path}/x:v1", options)
    assert list(tmp_path.iterdir()) == []


def test_the_creation_time_has_an_option_of_its_own(tmp_path: Path) -> None:
    options = ocibridge.PushOptions(annotations={"org.opencontainers.image.created": "2026-01-01T00:00:00Z"})
    with pytest.raises(UsageError, match="give --created TIME instead"):
        ocibridge.push(tmp_path / "nothing.carton", f"oci:{tmp_path}/x:v1", options)


def test_a_listing_that_does_not_fit_is_left_out_and_symlinks_survive() -> None:
    whole = len(build_manifest().manifest)
    small = build_manifest(limits=Limits(manifest=whole - 1))
    found = read(small)
    assert b"org.ocibridge.files" not in small.manifest
    assert not found.model.complete
    assert [each.path for each in found.model.files if each.symlink] == ["data/alias.bin"]


def test_too_many_layers_is_one_sentence() -> None:
    with pytest.raises(LimitError, match="registries take") as caught:
        build_manifest(layers=Layers.RAW_FILES, limits=Limits(manifest=1000))
    assert "--layers tar" in str(caught.value)


def test_whiteouts_and_empty_models_are_refused() -> None:
    for name in (".wh.x", "a/.wh..wh..opq"):
        with pytest.raises(FormatError, match="deletion mark"):
            build_manifest(Model("folder", (file(name, Role.DOC, b""),)))
    with pytest.raises(FormatError, match="no file"):
        build_manifest(Model("folder", ()))


def test_raw_files_are_named_as_every_version_of_cri_o_asks() -> None:
    keys = ("org.opencontainers.image.title", "org.cnai.model.filepath", "org.cncf.model.filepath")
    for layer in manifest(layers=Layers.RAW_FILES)["layers"]:
        assert len({layer["annotations"][key] for key in keys}) == 1
    for layers in (Layers.TAR, Layers.RAW):
        for layer in manifest(layers=layers)["layers"]:
            assert "org.cncf.model.filepath" not in layer["annotations"]
