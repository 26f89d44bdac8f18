# SPDX-License-Identifier: Apache-2.0
"""The draft of seed 003 and the current specification, and one artifact in the words of another."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import datetime, timezone
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ocibridge.dialects.base import StoredArtifact
from ocibridge.dialects.choices import Compress, Layers
from ocibridge.dialects.config import dropped_keys, parse_config
from ocibridge.dialects.reading import parse_manifest, read_artifact
from ocibridge.dialects.registry import dialect_named, dialect_names
from ocibridge.dialects.writing import PlanOptions, plan_manifest, translate
from ocibridge.errors import FormatError, UsageError
from ocibridge.layers import BuiltManifest, Layer, describe
from ocibridge.model import Model, ModelInfo, Role

from .models import SMALL, file

SCHEMAS = Path(__file__).parents[2] / "schemas"
CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
GOLDEN = {
    ("modelpack", "tar"): "a93aba5f76c2c40b983767740ed10b5307f580ee15a48cec6c07ceecafa078b5",
    ("modelpack", "raw"): "451f7de0e673445050f5c0e25dc58801c1beeefbf5700dde2ad9f56c9c709617",
    ("modelpack", "raw-files"): "8dd19184964f3a1e66efe0dc4435906ba7d2e80441b6a0149727bdb0414a4eac",
    ("draft", "tar"): "cf0dc05d77f5d1a256714e428a8a8244a7532f5015d9aec4188ecab53b46fa10",
}
# Seed 003, "Manifest Annotation Keys": all but `ref.name`, which is the tag's business.
DRAFT_KEYS = {
    "created": "2026-01-02T03:04:05Z",
    "authors": "A, B",
    "url": "https://example.com/doc",
    "documentation": "https://example.com/doc",
    "source": "https://example.com/src",
    "version": "1",
    "revision": "r",
    "vendor": "v",
    "licenses": "MIT",
    "title": "Small",
    "description": "a <small> model & more",
    "architecture": "transformer",
    "family": "llama",
    "name": "small",
    "format": "safetensors",
    "param.size": "2100",
    "precision": "bf16",
    "quantization": "q8",
}


def build_manifest(dialect: str, model: Model = SMALL, layers: Layers = Layers.TAR, **options: Any) -> BuiltManifest:
    plan = plan_manifest(model, PlanOptions(layers, dialect=dialect_named(dialect), **options))
    return plan.build([describe(layer) for layer in plan.layers if isinstance(layer, Layer)])


def read(sealed: BuiltManifest) -> StoredArtifact:
    return read_artifact(parse_manifest(sealed.manifest, "it"), sealed.config, "it")


def named(sealed: BuiltManifest) -> dict[str, dict[str, Any]]:
    layers = json.loads(sealed.manifest)["layers"]
    return {each["annotations"]["org.opencontainers.image.title"].removesuffix(".tar"): each for each in layers}


@pytest.mark.parametrize(("dialect", "layers"), GOLDEN)
def test_golden_manifest(dialect: str, layers: str) -> None:
    found = hashlib.sha256(build_manifest(dialect, layers=Layers(layers)).manifest).hexdigest()
    assert found == GOLDEN[dialect, layers]


@pytest.mark.parametrize("dialect", dialect_names())
@pytest.mark.parametrize("compress", [Compress.NONE, Compress.GZIP])
def test_reading_gives_back_what_was_written(dialect: str, compress: Compress) -> None:
    found = read(build_manifest(dialect, compress=compress, created=CREATED))
    assert (found.dialect, found.model.format, found.model.complete) == (dialect, "folder", True)
    assert found.model.info == replace(SMALL.info, created_at=CREATED)
    assert found.model.origin == SMALL.origin
    assert {(each.path, each.role, each.symlink) for each in found.model.files} == {
        (each.path, each.role, each.symlink) for each in SMALL.files
    }
    assert None not in {each.diff_id for each in found.layers}


@pytest.mark.parametrize("layers", list(Layers))
def test_modelpack_has_one_name_for_everything(layers: Layers) -> None:
    sealed = build_manifest("modelpack", layers=layers)
    document = json.loads(sealed.manifest)
    assert document["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    assert document["config"]["mediaType"] == "application/vnd.cncf.model.config.v1+json"
    assert b"cnai" not in sealed.manifest + sealed.config
    suffix = ".tar" if layers is Layers.TAR else ".raw"
    weight = named(sealed)["model-1.safetensors"]
    assert weight["mediaType"] == f"application/vnd.cncf.model.weight.v1{suffix}"
    assert weight["annotations"]["org.cncf.model.filepath"] == "model-1.safetensors"
    kinds = {each["mediaType"] for each in document["layers"]}
    assert kinds <= {f"application/vnd.cncf.model.{role.value}.v1.{end}" for role in Role for end in ("tar", "raw")}


def test_the_modelpack_config_is_closed_and_has_a_diff_id_for_each_layer() -> None:
    config = json.loads(build_manifest("modelpack").config)
    assert config["modelfs"]["type"] == "layers"
    assert len(config["modelfs"]["diffIds"]) == len(json.loads(build_manifest("modelpack").manifest)["layers"])
    schema = json.loads((SCHEMAS / "config.json").read_text())
    Draft202012Validator(schema).validate(config)
    assert not schema["additionalProperties"]


WRONG: list[tuple[str, Any]] = [
    ("config", None),
    ("modelfs", None),
    ("descriptor", None),
    ("descriptor.version", 3.1),
    ("descriptor.revision", 1234567890),
    ("descriptor.createdAt", "2025/01/01T00:00:00Z"),
    ("descriptor.authors", "John Doe"),
    ("descriptor.licenses", "Apache-2.0"),
    ("descriptor.docURL", ["https://example.com/doc"]),
    ("descriptor.sourceURL", ["https://example.com/src"]),
    ("descriptor.datasetsURL", "https://example.com/dataset"),
    ("descriptor.name", ""),
    ("descriptor.surprise", "x"),
    ("config.paramSize", 8000000),
    ("config.precision", 16),
    ("config.surprise", "x"),
    ("modelfs.type", "layer"),
    ("modelfs.diffIds", "sha256:" + "1" * 64),
    ("modelfs.diffIds", []),
    ("modelfs.diffIds", None),
    ("config.capabilities.inputTypes", "text"),
    ("config.capabilities.outputTypes", "text"),
    ("config.capabilities.inputTypes", ["img"]),
    ("config.capabilities.knowledgeCutoff", "2025-01-01"),
    ("config.capabilities.reasoning", "true"),
    ("config.capabilities.toolUsage", "true"),
    ("config.capabilities.reward", "true"),
    ("config.capabilities.languages", "en"),
    ("config.capabilities.languages", ["fra"]),
    ("config.capabilities.unknownField", True),
]


@pytest.mark.parametrize(("place", "value"), [("config.capabilities.reasoning", True), *WRONG], ids=str)
def test_our_schema_judges_modelpack_configs_as_the_published_one(place: str, value: Any) -> None:
    """One valid config, and each of the mistakes that the specification's own tests make in it."""
    document = json.loads(build_manifest("modelpack", created=CREATED).config)
    document["descriptor"]["datasetsURL"] = ["https://example.com/dataset"]
    document["config"]["capabilities"] = {
        "inputTypes": ["text", "image"],
        "outputTypes": ["embedding"],
        "knowledgeCutoff": "2025-01-01T00:00:00Z",
        "reasoning": False,
        "toolUsage": True,
        "reward": False,
        "languages": ["en", "de"],
    }
    *parts, last = place.split(".")
    inner = document
    for part in parts:
        inner = inner[part]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    schema = json.loads((SCHEMAS / "config-modelpack.json").read_text())
    checker = Draft202012Validator.FORMAT_CHECKER
    assert Draft202012Validator(schema, format_checker=checker).is_valid(document) is ((place, value) not in WRONG)


def test_the_types_of_the_draft() -> None:
    sealed = build_manifest("draft")
    document = json.loads(sealed.manifest)
    assert document["artifactType"] == "application/vnd.cnai.model.manifest.v1+json"
    for compress, suffix in ((Compress.NONE, "tar"), (Compress.GZIP, "tar+gzip")):
        for layer in json.loads(build_manifest("draft", compress=compress).manifest)["layers"]:
            assert layer["mediaType"] == f"application/vnd.oci.image.layer.v1.{suffix}"
            assert layer["artifactType"] == f"application/vnd.cnai.model.layer.v1.{suffix}"


def test_every_annotation_key_of_the_draft() -> None:
    annotations = json.loads(build_manifest("draft", created=CREATED).manifest)["annotations"]
    prefix = "org.cnai.model."
    found = {key[len(prefix) :]: value for key, value in annotations.items() if key.startswith(prefix)}
    assert found == DRAFT_KEYS
    layers = named(build_manifest("draft"))
    for name, key in (("README.md", "readme"), ("LICENSE", "license"), ("model-1.safetensors", "model")):
        assert layers[name]["annotations"][prefix + key] == "true"
        assert layers[name]["annotations"][prefix + "filepath"] == name
    assert sum(prefix + "config" in each["annotations"] for each in layers.values()) == 1


@pytest.mark.parametrize("key", ["url", "documentation"])
def test_a_draft_of_another_tool(key: str) -> None:
    document = json.loads(build_manifest("draft").manifest)
    document["annotations"] = {f"org.cnai.model.{key}": "https://x", "org.cnai.model.ref.name": "n"}
    info = read_artifact(parse_manifest(json.dumps(document).encode(), "it"), b"not JSON", "it").model.info
    assert (info.doc_url, info.name) == ("https://x", "n")


@pytest.mark.parametrize(
    "info",
    [
        ModelInfo(param_size="8b"),
        ModelInfo(param_size="1.25B"),
        ModelInfo(authors=("Doe, Jane", "B")),
        ModelInfo(licenses=("MIT AND Apache-2.0",)),
        ModelInfo(created_at=CREATED, name="x"),
    ],
    ids=str,
)
def test_the_draft_loses_no_metadata(info: ModelInfo) -> None:
    found = read(build_manifest("draft", replace(SMALL, info=info))).model
    assert (found.info, found.origin) == (info, SMALL.origin)


def test_a_malformed_annotation_of_ours_is_refused() -> None:
    document = json.loads(build_manifest("draft").manifest)
    document["annotations"]["org.ocibridge.info"] = "{"
    with pytest.raises(FormatError, match=r"org\.ocibridge\.info"):
        read_artifact(parse_manifest(json.dumps(document).encode(), "it"), b"{}", "it")


@pytest.mark.parametrize("layers", [Layers.RAW, Layers.RAW_FILES])
def test_the_draft_has_no_raw_layers(layers: Layers) -> None:
    with pytest.raises(UsageError, match="no name for raw layers"):
        build_manifest("draft", layers=layers)
    with pytest.raises(UsageError, match=r"tar\+zstd"):
        build_manifest("draft", compress=Compress.ZSTD)


def test_an_unknown_dialect() -> None:
    with pytest.raises(UsageError, match="cnai, draft, modelpack"):
        dialect_named("klingon")


@pytest.mark.parametrize(("one", "other"), list(permutations(dialect_names(), 2)))
@pytest.mark.parametrize("compress", [Compress.NONE, Compress.GZIP])
def test_there_and_back_is_the_same_manifest(one: str, other: str, compress: Compress) -> None:
    model = replace(SMALL, info=replace(SMALL.info, title=None, name=None, param_size="8b", created_at=CREATED))
    mine = {
        "org.opencontainers.image.title": "mine",
        "com.example.key": "value",
        "org.opencontainers.image.created": "x",
    }
    for more in ({}, {"annotations": mine}, {"created": CREATED}):
        first = build_manifest(one, model, compress=compress, **more)
        there = translate(read(first), dialect_named(other))
        assert there.manifest == build_manifest(other, model, compress=compress, **more).manifest
        assert translate(read(there), dialect_named(one)) == first


@pytest.mark.parametrize("layers", list(Layers))
def test_raw_there_and_back(layers: Layers) -> None:
    first = build_manifest("cnai", layers=layers)
    there = translate(read(first), dialect_named("modelpack"))
    assert there.manifest == build_manifest("modelpack", layers=layers).manifest
    assert (
        translate(read(there), dialect_named("cnai").with_bare_raw() if layers is Layers.RAW else dialect_named("cnai"))
        == first
    )


def test_what_another_tool_says_of_a_layer_is_kept() -> None:
    document = json.loads(build_manifest("cnai", Model("folder", (file("w.bin", Role.WEIGHT, b"w"),))).manifest)
    document["layers"][0]["annotations"] = {
        "org.cnai.model.filepath": "w.bin",
        "org.cnai.model.file.metadata+json": '{"name":"w.bin","mode":493,"size":1}',
        "com.example.tool": "1",
    }
    config = build_manifest("cnai").config
    there = translate(
        read_artifact(parse_manifest(json.dumps(document).encode(), "it"), config, "it"), dialect_named("modelpack")
    )
    annotations = json.loads(there.manifest)["layers"][0]["annotations"]
    assert annotations["org.cncf.model.file.metadata+json"] == '{"name":"w.bin","mode":493,"size":1}'
    assert annotations["com.example.tool"] == "1"
    assert not any("cnai" in key for key in annotations)


def test_config_keys_that_we_have_no_word_for_are_named() -> None:
    document = json.loads(build_manifest("modelpack").config)
    document["config"] |= {"capabilities": {"reasoning": True}, "parameterSize": "8b", "nothing": None}
    document["descriptor"]["datasetsURL"] = ["x"]
    del document["config"]["paramSize"]
    data = json.dumps(document).encode()
    assert dropped_keys(data, parse_config(data, "it", len(data))) == ["config.capabilities", "descriptor.datasetsURL"]
