# SPDX-License-Identifier: Apache-2.0
"""A companion leads to its model, in every command that reads one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ocibridge
from ocibridge import FormatError, MemoryStore, NotFound, PushOptions, StoreReference, VerifyOptions
from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, Index, Manifest

from ..registry import RegistryServer

CARTON = Path(__file__).parent.parent / "fixtures" / "digits.carton"


@pytest.mark.parametrize("kind", ["registry", "layout"])
def test_the_image_of_a_model(tmp_path: Path, registry: RegistryServer, repository: str, kind: str) -> None:
    base = f"{registry.host}/{repository}" if kind == "registry" else f"oci:{tmp_path}/layout"
    pushed = ocibridge.push(CARTON, f"{base}:v1", PushOptions(also=("image",)))
    note = f"{base}:v1-image is the image of the model {pushed.reference}; the model itself is read"
    seen = ocibridge.inspect(f"{base}:v1-image")
    assert seen.warnings == [note]
    assert [(each.kind, each.tag) for each in seen.companions] == [("image", "v1-image")]
    assert seen.companions[0].reference == f"{base}@{pushed.also[0].digest}"
    assert seen == ocibridge.inspect(f"{base}:v1").model_copy(update={"warnings": [note]})
    assert note in ocibridge.verify(f"{base}:v1-image").warnings
    assert ocibridge.verify(CARTON, VerifyOptions(against=f"{base}:v1-image")).verified
    pulled = ocibridge.pull(f"{base}:v1-image", tmp_path / "back.carton")
    assert (pulled.source, pulled.identity) == (pushed.reference, pushed.identity)
    assert note in pulled.warnings
    with ocibridge.open_file(f"{base}:v1-image", "carton.toml") as file:
        assert (file.subject, list(file.warnings)) == (pushed.reference, [note])
    assert json.loads(ocibridge.raw_manifest(f"{base}:v1-image"))["subject"]["digest"] == pushed.digest


def test_an_image_whose_model_is_gone(tmp_path: Path) -> None:
    pushed = ocibridge.push(CARTON, f"oci:{tmp_path}:v1", PushOptions(also=("image",)))
    other = MemoryStore("memory:there")
    other.push_manifest(ocibridge.raw_manifest(f"oci:{tmp_path}:v1-image"), MEDIA_TYPE_INDEX, "v1-image")
    with pytest.raises(NotFound) as caught:
        ocibridge.inspect(StoreReference(other, "v1-image"))
    assert caught.value.message == (
        f"memory:there:v1-image is the image of the model {pushed.digest}, which is not in memory:there"
    )


def test_an_index_and_an_image_of_nobody() -> None:
    store = MemoryStore("memory:here")
    config = b"{}"
    descriptor = Descriptor.of(config, "application/vnd.oci.image.config.v1+json")
    store.push_blob(descriptor, BytesContent(config))
    manifest = store.push_manifest(Manifest(config=descriptor, layers=[]).to_json(), MEDIA_TYPE_MANIFEST, "one")
    platform = {"os": "linux", "architecture": "amd64"}
    index = Index(manifests=[manifest.model_copy(update={"platform": platform})])
    store.push_manifest(index.to_json(), MEDIA_TYPE_INDEX, "all")
    with pytest.raises(FormatError) as caught:
        ocibridge.inspect(StoreReference(store, "all"))
    assert str(caught.value) == (
        "memory:here:all is an image for 'linux/amd64', and no model artifact; give the tag of a model; "
        "'ocibridge inspect --raw memory:here:all' shows what this is"
    )
    with pytest.raises(FormatError, match=r"is not a model artifact but 'application/vnd.oci.image.config"):
        ocibridge.verify(StoreReference(store, "one"))
    assert ocibridge.raw_manifest(StoreReference(store, "one"), config=True) == config
    with pytest.raises(FormatError, match="is an index, which has no config"):
        ocibridge.raw_manifest(StoreReference(store, "all"), config=True)


def test_the_manifest_of_ollama(store: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push("ollama:tinyllama-test", f"oci:{tmp_path}/layout:v1", PushOptions(also=("ollama", "image")))
    report = ocibridge.inspect(f"oci:{tmp_path}/layout:v1-ollama")
    assert (report.source, report.digest) == (pushed.reference, pushed.digest)
    assert [(each.kind, each.tag) for each in report.companions] == [("ollama", "v1-ollama"), ("image", "v1-image")]
    assert report.warnings[0] == (
        f"oci:{tmp_path}/layout:v1-ollama is the ollama manifest of the model {pushed.reference}; "
        "the model itself is read"
    )
    pulled = ocibridge.pull(f"oci:{tmp_path}/layout:v1-ollama", tmp_path / "back")
    assert pulled.source == pushed.reference
    assert ocibridge.verify(tmp_path / "back", VerifyOptions(against=f"oci:{tmp_path}/layout:v1")).verified


def test_referrers_are_a_tree() -> None:
    store = MemoryStore("memory:here")
    pushed = ocibridge.push(CARTON, StoreReference(store, "v1"))

    def refer(subject: str, kind: str) -> Descriptor:
        found = store.resolve(subject)
        empty = Descriptor.of(b"{}", "application/vnd.oci.empty.v1+json")
        store.push_blob(empty, BytesContent(b"{}"))
        manifest = Manifest(artifact_type=kind, config=empty, layers=[], subject=found)
        return store.push_manifest(manifest.to_json(), MEDIA_TYPE_MANIFEST, None)

    sbom = refer(pushed.digest, "application/spdx+json")
    signature = refer(sbom.digest, "application/vnd.cncf.notary.signature")
    (report,) = ocibridge.inspect(StoreReference(store, "v1")).referrers
    assert (report.artifact_type, report.reference) == ("application/spdx+json", f"memory:here@{sbom.digest}")
    assert [each.reference for each in report.referrers] == [f"memory:here@{signature.digest}"]
