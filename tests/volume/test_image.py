# SPDX-License-Identifier: Apache-2.0
"""The image beside an artifact: the same blobs, in the words that container runtimes mount."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard

import ocibridge
from ocibridge import settings
from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor, Manifest, canonical_json, parse_reference
from ocibridge.stores.base import Store
from ocibridge.stores.opening import open_store

from ..formats.ollama.samples import unpack_store
from ..registry import RegistryServer, registry_server

FIXTURES = Path(__file__).parents[1] / "fixtures"
CARTON = FIXTURES / "digits.carton"
PLACES = ("registry", "oci", "oci-archive")


@dataclass(frozen=True)
class Image:
    """What is found under a tag."""

    index: dict[str, Any]
    manifests: list[dict[str, Any]]
    configs: list[dict[str, Any]]
    digest: str

    @property
    def layers(self) -> list[tuple[str, int]]:
        return [(each["digest"], each["size"]) for each in self.manifests[0]["layers"]]


def load(store: Store, version: str) -> Image:
    descriptor, data = store.fetch_manifest(version)
    index = json.loads(data)
    manifests, configs = [], []
    for each in index["manifests"]:
        manifest = json.loads(store.fetch_manifest(each["digest"])[1])
        manifests.append(manifest)
        configs.append(json.loads(blob(store, manifest["config"])))
    return Image(index, manifests, configs, descriptor.digest)


def load_from(reference: str) -> Image:
    found = parse_reference(reference)
    with open_store(found) as store:
        return load(store, found.version)


def blob(store: Store, descriptor: dict[str, Any]) -> bytes:
    return store.read_blob(Descriptor.model_validate(descriptor), 1 << 30)


def tree(reference: str) -> dict[str, str]:
    """What is mounted: every file of the layers and its sha256."""
    found = parse_reference(reference)
    files = {}
    with open_store(found) as store:
        for layer in load(store, found.version).manifests[0]["layers"]:
            with tarfile.open(fileobj=io.BytesIO(plain(layer["mediaType"], blob(store, layer)))) as archive:
                for member in archive:
                    reader = archive.extractfile(member)
                    assert reader
                    files[member.name] = hashlib.sha256(reader.read()).hexdigest()
    return files


def plain(media_type: str, data: bytes) -> bytes:
    if media_type.endswith("+gzip"):
        return gzip.decompress(data)
    if media_type.endswith("+zstd"):
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def files_of(reference: str) -> dict[str, str | None]:
    return {each.path: each.sha256 for each in ocibridge.inspect(reference).files}


@pytest.fixture
def place(request: pytest.FixtureRequest, registry: RegistryServer, repository: str, tmp_path: Path) -> str:
    """A registry's repository, a layout or an archive, without a tag."""
    return {
        "registry": f"{registry.host}/{repository}",
        "oci": f"oci:{tmp_path / 'layout'}",
        "oci-archive": f"oci-archive:{tmp_path / 'layout.tar'}",
    }[request.param]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A model folder with three shards."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in (1, 2, 3):
        (folder / f"model-{number}.safetensors").write_bytes(shard(number))
    (folder / "config.json").write_text("{}")
    (folder / "README.md").write_text("# shards")
    return folder


def shard(number: int) -> bytes:
    header = canonical_json({"w": {"dtype": "U8", "shape": [1000 * number], "data_offsets": [0, 1000 * number]}})
    return len(header).to_bytes(8, "little") + header + bytes([number]) * 1000 * number


# push --also image


@pytest.mark.parametrize("compress", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_both_manifests_name_the_same_blobs(place: str, compress: str) -> None:
    pushed = ocibridge.push(CARTON, f"{place}:v1", ocibridge.PushOptions(compress=compress, also=["image"]))
    assert pushed.digest == ocibridge.push(CARTON, f"{place}:plain", ocibridge.PushOptions(compress=compress)).digest
    (also,) = pushed.also
    assert (also.kind, also.tag, also.reference) == ("image", "v1-image", f"{place}@{also.digest}")
    with open_store(parse_reference(place)) as store:
        image = load(store, "v1-image")
        assert image.digest == also.digest
        assert image.layers == [(each.digest, each.size) for each in pushed.layers]
        suffix = "" if compress == "none" else f"+{compress}"
        for manifest, config in zip(image.manifests, image.configs, strict=True):
            assert {each["mediaType"] for each in manifest["layers"]} == {
                f"application/vnd.oci.image.layer.v1.tar{suffix}"
            }
            unpacked = [plain(each["mediaType"], blob(store, each)) for each in manifest["layers"]]
            assert config["rootfs"] == {
                "type": "layers",
                "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest() for data in unpacked],
            }
        if compress == "none":
            assert image.configs[0]["rootfs"]["diff_ids"] == [digest for digest, _ in image.layers]
        artifact = Manifest.model_validate_json(store.fetch_manifest("v1")[1])
        configs = {each["config"]["digest"] for each in image.manifests} | {artifact.config.digest}
        assert len(configs) == 3, "an image is known by its config"
        assert [each["platform"]["architecture"] for each in image.index["manifests"]] == ["amd64", "arm64"]
        assert image.index["subject"]["digest"] == pushed.digest
        assert [each.digest for each in store.referrers(pushed.digest)] == [image.digest]
    assert tree(f"{place}:v1-image") == files_of(f"{place}:v1")
    assert ocibridge.verify(f"{place}:v1").identity == pushed.identity


def test_the_draft_has_an_image_too(tmp_path: Path) -> None:
    pushed = ocibridge.push(
        CARTON,
        f"oci:{tmp_path}/x:v1",
        ocibridge.PushOptions(dialect="draft", also=["image"], platforms=["linux/riscv64"]),
    )
    image = load_from(f"oci:{tmp_path}/x:v1-image")
    assert image.layers == [(each.digest, each.size) for each in pushed.layers]
    assert [each["architecture"] for each in image.configs] == ["riscv64"]


@pytest.mark.parametrize("layers", ["raw", "raw-files"])
@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_raw_layers_are_wrapped_as_a_push_of_tar_layers_would(place: str, layers: str, weights: Path) -> None:
    tar = ocibridge.push(weights, f"{place}:tar")
    ocibridge.push(weights, f"{place}:v1", ocibridge.PushOptions(layers=layers, also=["image"]))
    assert load_from(f"{place}:v1-image").layers == [(each.digest, each.size) for each in tar.layers]
    ocibridge.push(weights, f"{place}:v2", ocibridge.PushOptions(layers=layers))
    prepared = ocibridge.volume_prepare(f"{place}:v2")
    assert [each.digest for each in prepared.layers] == [each.digest for each in tar.layers]
    assert {each.action for each in prepared.layers} == {"skipped"}


def test_raw_weights_beside_compressed_layers(weights: Path, tmp_path: Path) -> None:
    """Layers that are tar stay what they are; only the others are made."""
    place = f"oci:{tmp_path}/x"
    pushed = ocibridge.push(
        weights, f"{place}:v1", ocibridge.PushOptions(layers="raw", compress="zstd", also=["image"])
    )
    kept = {each.digest for each in pushed.layers if each.media_type.endswith("+zstd")}
    assert kept
    image = load_from(f"{place}:v1-image")
    assert kept < {digest for digest, _ in image.layers}
    assert tree(f"{place}:v1-image") == files_of(f"{place}:v1")


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    with pytest.raises(ocibridge.UsageError, match="--platform"):
        ocibridge.push(CARTON, target, ocibridge.PushOptions(platforms=["linux/amd64"]))
    with pytest.raises(ocibridge.UsageError, match="is no platform"):
        ocibridge.push(CARTON, target, ocibridge.PushOptions(also=["image"], platforms=["amd64"]))
    with pytest.raises(ocibridge.UsageError, match="--max-layers is for tar"):
        ocibridge.push(CARTON, target, ocibridge.PushOptions(layers="raw-files", max_layers=7))
    with pytest.raises(ocibridge.UsageError, match="'picture'"):
        ocibridge.push(CARTON, target, ocibridge.PushOptions(also=["picture"]))
    with pytest.raises(ocibridge.InvalidReference, match="the tag"):
        ocibridge.push(CARTON, f"oci:{tmp_path}/x:{'t' * 125}", ocibridge.PushOptions(also=["image"]))
    assert not (tmp_path / "x").exists(), "nothing moves before all is known to fit"


# what a registry keeps and hears


@dataclass(frozen=True)
class ProgressReader:
    server: RegistryServer
    storage: Path

    def used(self) -> int:
        """Bytes of all that it stores."""
        if self.server.kind == "process":
            return sum(path.stat().st_size for path in self.storage.rglob("*") if path.is_file())
        port = self.server.host.rpartition(":")[2]
        name = subprocess.check_output(["docker", "ps", "--quiet", f"--filter=publish={port}"], text=True).strip()
        stored = subprocess.check_output(["docker", "cp", f"{name}:/var/lib/registry", "-"])
        with tarfile.open(fileobj=io.BytesIO(stored)) as archive:
            return sum(member.size for member in archive)

    def paths(self) -> list[str]:
        """Method and path of the requests so far."""
        return re.findall(r'"((?:GET|HEAD|PUT|POST|PATCH) [^" ]*)', self.server.log())


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[ProgressReader]:
    folder = tmp_path / "watched"
    folder.mkdir()
    with registry_server(folder, access_log=True) as server:
        yield ProgressReader(server, folder / "storage")


def test_an_image_costs_a_few_kilobytes(watched: ProgressReader) -> None:
    target = f"{watched.server.host}/models/digits:v1"
    pushed = ocibridge.push(CARTON, target)
    before, requests = watched.used(), len(watched.paths())
    assert before > sum(layer.size for layer in pushed.layers)
    prepared = ocibridge.volume_prepare(target)
    assert {each.action for each in prepared.layers} == {"skipped"}
    moved = watched.paths()[requests:]
    for layer in pushed.layers:
        assert not any(layer.digest in path for path in moved), "no layer is sent, read, or even asked for"
    image = load_from(f"{target}-image")
    documents = [image.index, *image.manifests, *image.configs]
    assert sum(len(canonical_json(each)) for each in documents) < 16 * 1024
    assert 0 < watched.used() - before < 64 * 1024


def test_preparing_twice_uploads_nothing(watched: ProgressReader) -> None:
    target = f"{watched.server.host}/models/digits:v1"
    ocibridge.push(CARTON, target, ocibridge.PushOptions(layers="raw-files"))
    first = ocibridge.volume_prepare(target)
    assert {each.action for each in first.layers} == {"uploaded"}
    requests = len(watched.paths())
    again = ocibridge.volume_prepare(target)
    assert again.digest == first.digest
    assert [each.digest for each in again.layers] == [each.digest for each in first.layers]
    assert {each.action for each in again.layers} == {"skipped"}
    assert not any("/blobs/uploads/" in path for path in watched.paths()[requests:])
    assert load_from(first.reference).index["subject"]["digest"] == ocibridge.inspect(target).digest


def test_a_large_raw_weight_streams_from_registry_to_registry_once(
    watched: ProgressReader, place_registry: str, tmp_path: Path
) -> None:
    """Hashed while it is sent, as a new repository lets us: read once, and nowhere kept."""
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(bytes(9 * 1024 * 1024))
    source = f"{watched.server.host}/models/large:v1"
    raw = ocibridge.push(folder, source, ocibridge.PushOptions(layers="raw-files")).layers[0].digest
    requests = len(watched.paths())
    prepared = ocibridge.volume_prepare(source, f"{place_registry}:v1")
    assert [each.action for each in prepared.layers] == ["uploaded"]
    assert watched.paths()[requests:].count(f"GET /v2/models/large/blobs/{raw}") == 1
    assert tree(prepared.reference) == files_of(source)


# volume prepare


def test_a_model_of_ollama(place_registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpack_store(tmp_path / "models")
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    pushed = ocibridge.push(
        "ollama:tinyllama-test", f"{place_registry}:v1", ocibridge.PushOptions(also=["ollama", "image"])
    )
    assert [each.kind for each in pushed.also] == ["ollama", "image"]
    assert tree(f"{place_registry}:v1-image") == files_of(pushed.reference)
    plain_push = ocibridge.push("ollama:tinyllama-test", f"{place_registry}:v2")
    prepared = ocibridge.volume_prepare(f"{place_registry}:v2", options=ocibridge.PrepareOptions(suffix="-k8s"))
    assert plain_push.digest == pushed.digest
    assert prepared.tag == "v2-k8s"
    assert prepared.digest == pushed.also[1].digest
    assert ocibridge.verify(f"{place_registry}:v2").identity == pushed.identity


@pytest.fixture
def place_registry(registry: RegistryServer, repository: str) -> str:
    return f"{registry.host}/{repository}"


@pytest.mark.parametrize("layers", ["tar", "raw", "raw-files"])
@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_an_image_in_another_place(place: str, layers: str, weights: Path, tmp_path: Path) -> None:
    source = ocibridge.push(weights, f"oci:{tmp_path}/source:v1", ocibridge.PushOptions(layers=layers))
    prepared = ocibridge.volume_prepare(source.reference, f"{place}:prod")
    assert prepared.source == source.reference
    assert prepared.tag == "prod-image"
    assert prepared.reference == f"{place}@{prepared.digest}"
    assert tree(prepared.reference) == files_of(source.reference)
    assert {each.action for each in prepared.layers} == {"uploaded"}
    assert any("copy the model" in each for each in prepared.warnings), "the subject is not there"
    with open_store(parse_reference(place)) as store:
        assert [each.digest for each in store.referrers(source.digest)] == [prepared.digest]


def test_layers_are_mounted_inside_a_registry(place_registry: str) -> None:
    ocibridge.push(CARTON, f"{place_registry}:v1")
    prepared = ocibridge.volume_prepare(f"{place_registry}:v1", f"{place_registry}-images:v1")
    assert {each.action for each in prepared.layers} == {"mounted"}


def test_a_tag_is_needed(tmp_path: Path) -> None:
    pushed = ocibridge.push(CARTON, f"oci:{tmp_path}/x:v1")
    with pytest.raises(ocibridge.UsageError, match="needs a tag"):
        ocibridge.volume_prepare(pushed.reference)
    with pytest.raises(ocibridge.UsageError, match="a tag, not a digest"):
        ocibridge.volume_prepare(f"oci:{tmp_path}/x:v1", pushed.reference)
    prepared = ocibridge.volume_prepare(
        f"oci:{tmp_path}/x:v1@{pushed.digest}", options=ocibridge.PrepareOptions(platforms=["linux/arm64"])
    )
    assert prepared.tag == "v1-image"
    assert [each.platform for each in prepared.platforms] == ["linux/arm64"]


def test_more_layers_than_a_mount_bears(weights: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    assert len(ocibridge.push(weights, target).layers) == 5
    with pytest.raises(ocibridge.LimitError, match="5 tar layers") as caught:
        ocibridge.volume_prepare(target, options=ocibridge.PrepareOptions(max_layers=4))
    assert "--max-layers" in str(caught.value.hint)
    assert len(ocibridge.push(weights, target, ocibridge.PushOptions(max_layers=4)).layers) == 4
    assert len(ocibridge.volume_prepare(target, options=ocibridge.PrepareOptions(max_layers=4)).layers) == 4
    for layers in ("raw", "raw-files"):
        raw = ocibridge.push(
            weights, f"oci:{tmp_path}/x:{layers}", ocibridge.PushOptions(layers=layers, also=["image"], max_layers=4)
        )
        assert len(raw.layers) == 5
        assert len(load_from(f"oci:{tmp_path}/x:{layers}-image").layers) == 4
        assert tree(f"oci:{tmp_path}/x:{layers}-image") == files_of(raw.reference)
    assert settings.MAX_LAYERS < 128


# names that a runtime would take for something else


def foreign(place: Path, kind: str, members: list[tarfile.TarInfo], annotation: str | None = None) -> str:
    """An artifact of another tool, whose manifest does not list the files of its one layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    data = buffer.getvalue()
    diff_id = "sha256:" + hashlib.sha256(data).hexdigest()
    if kind == "tar+gzip":
        data = gzip.compress(data, mtime=0)
    config = canonical_json({"descriptor": {}, "config": {}, "modelfs": {"type": "layers", "diffIds": [diff_id]}})
    layer = Descriptor.of(data, f"application/vnd.cnai.model.weight.v1.{kind}")
    document = Manifest(
        artifact_type="application/vnd.cnai.model.manifest.v1+json",
        config=Descriptor.of(config, "application/vnd.cnai.model.config.v1+json"),
        layers=[layer.model_copy(update={"annotations": {"org.ocibridge.files": annotation}}) if annotation else layer],
    )
    with open_store(parse_reference(f"oci:{place}"), create=True) as store:
        store.push_blob(layer, BytesContent(data))
        store.push_blob(document.config, BytesContent(config))
        store.push_manifest(document.to_json(), MEDIA_TYPE_MANIFEST, "v1")
    return f"oci:{place}:v1"


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.size = kind, size
    found.linkname = "target" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    return found


@pytest.mark.parametrize("kind", ["tar", "tar+gzip"])
@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (member("x/.wh.weights.bin"), "deletion mark"),
        (member("x/.wh..wh..opq"), "deletion mark"),
        (member(".wh.x", tarfile.DIRTYPE), "deletion mark"),
        (member("x/link", tarfile.SYMTYPE), "neither a file nor a folder"),
        (member("x/pipe", tarfile.FIFOTYPE), "neither a file nor a folder"),
        (member("../x"), "leaves the folder"),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else "",
)
def test_layers_that_are_not_listed_are_looked_into(bad: tarfile.TarInfo, word: str, kind: str, tmp_path: Path) -> None:
    good = [member("x", tarfile.DIRTYPE), member("x/weights.bin", size=3000)]
    fine = ocibridge.volume_prepare(foreign(tmp_path / "good", kind, good))
    assert load_from(fine.reference).layers == [(each.digest, each.size) for each in fine.layers]
    assert list(tree_names(fine.reference)) == ["x", "x/weights.bin"]
    with pytest.raises(ocibridge.FormatError, match=word):
        ocibridge.volume_prepare(foreign(tmp_path / "bad", kind, [*good, bad]))
    with open_store(parse_reference(f"oci:{tmp_path / 'bad'}")) as store:
        assert store.tags() == ["v1"]


def tree_names(reference: str) -> list[str]:
    found = parse_reference(reference)
    with open_store(found) as store:
        (layer,) = load(store, found.version).manifests[0]["layers"]
        with tarfile.open(fileobj=io.BytesIO(plain(layer["mediaType"], blob(store, layer)))) as archive:
            return archive.getnames()


def test_a_listing_tells_of_a_deletion_mark(tmp_path: Path) -> None:
    row = {"path": "x/.wh.y", "size": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    target = foreign(tmp_path / "x", "tar", [member("x/.wh.y")], canonical_json([row]).decode())
    with pytest.raises(ocibridge.FormatError, match="deletion mark"):
        ocibridge.volume_prepare(target)
