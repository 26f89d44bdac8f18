# SPDX-License-Identifier: Apache-2.0
"""Reading what exists in the wild: every spelling of the specification, and hostile manifests."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.dialects.base import StoredArtifact
from ocibridge.dialects.reading import choose_manifest, parse_manifest, read_artifact
from ocibridge.errors import FormatError, OcibridgeError
from ocibridge.layers import Encoding
from ocibridge.model import Role
from ocibridge.oci import Index

ZERO = "sha256:" + "0" * 64
ONE = "sha256:" + "1" * 64


def layer(kind: str, **annotations: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": ZERO, "size": 7, "annotations": {**annotations}}


def read(
    layers: list[dict[str, Any]],
    config: Any = None,
    space: str = "cnai",
    config_type: str | None = None,
    **more: Any,
) -> StoredArtifact:
    document = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": f"application/vnd.{space}.model.manifest.v1+json",
        "config": {
            "mediaType": config_type or f"application/vnd.{space}.model.config.v1+json",
            "digest": ONE,
            "size": 2,
        },
        "layers": layers,
        **more,
    }
    config = config or {"descriptor": {}, "config": {}, "modelfs": {"type": "layers", "diffIds": [ZERO]}}
    manifest = parse_manifest(json.dumps(document).encode(), "it")
    return read_artifact(manifest, json.dumps(config).encode(), "it")


RAW = "application/vnd.cnai.model.weight.v1.raw"


@pytest.mark.parametrize("space", ["cnai", "cncf"])
@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("suffix", ["", ".raw", ".tar", ".tar+gzip", ".tar+zstd"])
def test_every_layer_type_in_both_namespaces(space: str, role: Role, suffix: str) -> None:
    kind = f"application/vnd.{space}.model.{role.value}.v1{suffix}"
    found = read([layer(kind, **{f"org.{space}.model.filepath": "x"})], space=space)
    assert found.layers[0].role is role
    assert found.layers[0].encoding is Encoding(suffix[1:] or "raw")
    assert found.dialect == {"cnai": "cnai", "cncf": "modelpack"}[space]


@pytest.mark.parametrize(
    "key", ["org.cnai.model.filepath", "org.cncf.model.filepath", "org.opencontainers.image.title"]
)
def test_a_file_is_named_by_either_namespace_or_the_title(key: str) -> None:
    assert read([layer(RAW, **{key: "a/b"})]).model.files[0].path == "a/b"


def test_a_tar_layer_without_a_path_is_known_by_its_headers() -> None:
    found = read([layer("application/vnd.cnai.model.weight.v1.tar")])
    assert (found.layers[0].files, found.model.complete) == ((), False)


def test_the_draft_of_seed_003() -> None:
    kind = "application/vnd.oci.image.layer.v1.tar"
    readme = layer(kind, **{"org.cnai.model.readme": "true"})
    config = layer(kind, **{"org.cnai.model.config": "true"})
    found = read([readme, config, layer(kind)], config_type="application/vnd.oci.image.config.v1+json")
    assert found.dialect == "draft"
    assert [each.role for each in found.layers] == [Role.DOC, Role.WEIGHT_CONFIG, Role.WEIGHT]


@pytest.mark.parametrize("key", ["diffIds", "diff_ids"])
def test_both_spellings_of_diff_ids(key: str) -> None:
    found = read(
        [layer(RAW, **{"org.cnai.model.filepath": "x"})],
        {"descriptor": {}, "config": {}, "modelfs": {"type": "layers", key: [ZERO]}},
    )
    assert found.layers[0].diff_id == ZERO


def test_spellings_of_old_releases() -> None:
    config = {
        "descriptor": {"name": "n", "createdAt": "2025-01-01T00:00:00Z", "unknown": 1},
        "config": {"parameterSize": "8b", "puantization": "q4", "capabilities": {"input_types": ["text"]}},
        "modelfs": {"type": "layers", "diff_ids": [ZERO]},
    }
    info = read([layer(RAW, **{"org.cnai.model.filepath": "x"})], config).model.info
    assert (info.param_size, info.quantization, info.name) == ("8b", "q4", "n")
    assert info.created_at is not None


@pytest.mark.parametrize(
    ("layers", "word"),
    [
        ([layer(RAW)], "without a name"),
        ([layer(RAW, **{"org.cnai.model.filepath": "../x"})], "leaves the folder"),
        ([layer(RAW, **{"org.cnai.model.filepath": "/x"})], "absolute"),
        ([layer(RAW, **{"org.cnai.model.filepath": "x", "org.cncf.model.filepath": "y"})], "two paths"),
        ([layer(RAW, **{"org.cnai.model.filepath": "x"})] * 2, "twice"),
        ([layer("application/vnd.example.thing")], "no model specification knows"),
        ([layer("application/vnd.cnai.model.weight.v2.tar")], "no model specification knows"),
        ([layer("application/vnd.cnai.model.weight.v1.tar", **{"org.ocibridge.files": "{"})], "not valid"),
        (
            [
                layer(
                    "application/vnd.cnai.model.doc.v1.tar",
                    **{"org.ocibridge.files": '[{"path":"..","size":1,"sha256":"%s"}]' % ("0" * 64)},
                )
            ],
            "leaves the folder",
        ),
    ],
)
def test_hostile_layers(layers: list[dict[str, Any]], word: str) -> None:
    with pytest.raises(FormatError, match=word) as caught:
        read(layers)
    assert "\n" not in str(caught.value)


def test_something_else_is_named() -> None:
    document = {
        "schemaVersion": 2,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": ONE, "size": 2},
        "layers": [],
    }
    with pytest.raises(FormatError, match=r"not a model artifact but 'application/vnd\.oci\.image\.config"):
        parse_manifest(json.dumps(document).encode(), "it")


def test_the_model_in_an_index() -> None:
    image = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": ZERO, "size": 1}
    model = {**image, "digest": ONE, "artifactType": "application/vnd.cnai.model.manifest.v1+json"}
    index = Index.model_validate({"manifests": [image, model]})
    assert choose_manifest(index, "it").digest == ONE
    with pytest.raises(FormatError, match="it is an index, and no model artifact"):
        choose_manifest(Index.model_validate({"manifests": [image]}), "it")


@given(
    st.dictionaries(st.sampled_from(["org.cnai.model.filepath", "org.ocibridge.files", "x"]), st.text(max_size=30)),
    st.text(max_size=20),
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=5),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["descriptor", "modelfs", "config", "diffIds"]), x),
        max_leaves=5,
    ),
)
def test_any_manifest_ends_in_an_artifact_or_an_error(annotations: dict[str, str], symlinks: str, config: Any) -> None:
    try:
        read([layer(RAW, **annotations)], config=config or {"a": 1}, annotations={"org.ocibridge.symlinks": symlinks})
    except OcibridgeError as exc:
        assert "\n" not in str(exc)
