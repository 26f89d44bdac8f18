# SPDX-License-Identifier: Apache-2.0
"""Files in a folder of the layers that the model itself does not have."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

import ocibridge
from ocibridge.io.marker import MARKER
from ocibridge.oci import MEDIA_TYPE_MANIFEST, parse_reference
from ocibridge.stores.opening import open_store

from ..formats.ollama.samples import tree as ollama_tree
from ..formats.ollama.samples import unpack_store
from ..translating import translate
from .test_image import CARTON, FIXTURES, files_of, tree

LAYERS = ("tar", "raw", "raw-files")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "hf-digits"
    with tarfile.open(FIXTURES / "hf-digits.tar") as archive:
        archive.extractall(path, filter="data")
    return path


def files_in(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_both_manifests_share_blobs_whose_files_are_below_the_folder(compress: str, tmp_path: Path) -> None:
    place = f"oci:{tmp_path}/x"
    plain = ocibridge.push(CARTON, f"{place}:plain", ocibridge.PushOptions(compress=compress))
    pushed = ocibridge.push(
        CARTON, f"{place}:v1", ocibridge.PushOptions(prefix="models", compress=compress, also=["image"])
    )
    assert pushed.identity == plain.identity
    assert not {each.digest for each in pushed.layers} & {each.digest for each in plain.layers}
    assert tree(f"{place}:v1-image") == {"models/" + path: sha256 for path, sha256 in files_of(plain.reference).items()}
    seen = ocibridge.inspect(f"{place}:v1")
    assert seen.annotations["org.ocibridge.prefix"] == "models/"
    assert [each.path for each in seen.files] == [each.path for each in ocibridge.inspect(f"{place}:plain").files]
    assert seen.origin == ocibridge.inspect(f"{place}:plain").origin


@pytest.mark.parametrize("layers", LAYERS)
def test_a_carton_comes_back(layers: str, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    pushed = ocibridge.push(CARTON, target, ocibridge.PushOptions(layers=layers, prefix="models/"))
    assert ocibridge.verify(target).identity == pushed.identity
    pulled = ocibridge.pull(target, tmp_path / "back.carton")
    assert pulled.identity == pushed.identity == ocibridge.verify(CARTON).identity
    assert (
        ocibridge.push(tmp_path / "back.carton", target, ocibridge.PushOptions(layers=layers, prefix="models/")).digest
        == pushed.digest
    )
    if layers == "raw-files":
        assert ocibridge.verify(target, ocibridge.VerifyOptions(manifest_only=True)).identity == pushed.identity


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_a_folder_comes_back(layers: str, compress: str, folder: Path, tmp_path: Path) -> None:
    if (layers, compress) == ("raw-files", "gzip"):
        layers = "tar"
    target = f"oci:{tmp_path}/x:v1"
    ocibridge.push(folder, target, ocibridge.PushOptions(layers=layers, compress=compress, prefix="a/b/"))
    ocibridge.pull(target, tmp_path / "back")
    assert files_in(tmp_path / "back") == files_in(folder)


@pytest.mark.parametrize("layers", [None, *LAYERS])
def test_a_model_of_ollama_comes_back(layers: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = unpack_store(tmp_path / "models")
    monkeypatch.setenv("OLLAMA_MODELS", str(store))
    target = f"oci:{tmp_path}/x:v1"
    pushed = ocibridge.push("ollama:tinyllama-test", target, ocibridge.PushOptions(layers=layers, prefix="models/"))
    assert ocibridge.verify(target).identity == pushed.identity
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "new"))
    assert ocibridge.pull(target, "ollama:tinyllama-test").identity == pushed.identity
    new = ollama_tree(tmp_path / "new")
    assert new
    assert new.items() <= ollama_tree(store).items()


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("dialect", ["modelpack", "draft"])
def test_other_dialects_keep_the_folder(dialect: str, layers: str, tmp_path: Path) -> None:
    place = f"oci:{tmp_path}/x"
    pushed = ocibridge.push(CARTON, f"{place}:v1", ocibridge.PushOptions(layers=layers, prefix="models/"))
    converted = translate(f"{place}:v1", f"{place}:v2", ocibridge.ConvertOptions(dialect=dialect))
    assert ocibridge.verify(f"{place}:v2").identity == pushed.identity
    assert ocibridge.inspect(f"{place}:v2").annotations["org.ocibridge.prefix"] == "models/"
    with open_store(parse_reference(place)) as store:
        layers_now = json.loads(store.fetch_manifest(converted.digest or "")[1])["layers"]
    key = "org.cncf.model.filepath" if dialect == "modelpack" else "org.cnai.model.filepath"
    paths = [each["annotations"][key] for each in layers_now if key in each["annotations"]]
    assert any(paths)
    assert all(path.startswith("models/") for path in paths)
    back = translate(f"{place}:v2", f"{place}:v3", ocibridge.ConvertOptions(dialect="cnai"))
    if dialect == "modelpack":
        assert back.digest == pushed.digest
    assert ocibridge.pull(f"{place}:v3", tmp_path / "back.carton").identity == pushed.identity
    direct = ocibridge.push(
        CARTON, f"{place}:v4", ocibridge.PushOptions(layers="tar" if dialect == "draft" else layers, prefix="models/")
    )
    assert {each.digest for each in converted.layers} == {each.digest for each in direct.layers}


def test_a_manifest_with_a_folder_is_not_taken_for_one_without(tmp_path: Path) -> None:
    """Digests are taken from the manifest under the tag; the same files elsewhere in a layer are another layer."""
    place = f"oci:{tmp_path}/x"
    expected = ocibridge.push(CARTON, f"{place}:plain", ocibridge.PushOptions(cache=False))
    folder = ocibridge.push(CARTON, f"{place}:v1", ocibridge.PushOptions(cache=False, prefix="models/"))
    assert ocibridge.push(CARTON, f"{place}:v1", ocibridge.PushOptions(cache=False)).digest == expected.digest
    assert (
        ocibridge.push(CARTON, f"{place}:v1", ocibridge.PushOptions(cache=False, prefix="models/")).digest
        == folder.digest
    )
    assert ocibridge.verify(folder.reference).identity == expected.identity


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(
    ("prefix", "word"), [("other/", "is not in the folder"), ("models", "end with"), ("../", "leaves the folder")]
)
def test_an_annotation_that_is_not_true(prefix: str, word: str, layers: str, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    ocibridge.push(CARTON, target, ocibridge.PushOptions(layers=layers, prefix="models/"))
    with open_store(parse_reference(target)) as store:
        document = json.loads(store.fetch_manifest("v1")[1])
        document["annotations"]["org.ocibridge.prefix"] = prefix
        for layer in document["layers"]:
            layer["annotations"].pop("org.ocibridge.files", None)
        store.push_manifest(json.dumps(document).encode(), MEDIA_TYPE_MANIFEST, "v2")
    with pytest.raises(ocibridge.FormatError, match=word):
        ocibridge.pull(f"oci:{tmp_path}/x:v2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
