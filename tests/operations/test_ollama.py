# SPDX-License-Identifier: Apache-2.0
"""Ollama models through the operations: from the local store or a registry, to a registry or a layout, and back."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import ocibridge
from ocibridge.formats.ollama.local import LocalOllama, read_local
from ocibridge.formats.ollama.names import parse_ollama_name
from ocibridge.formats.ollama.options import OllamaReadOptions
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor, RegistryReference
from ocibridge.stores.registry import RegistryStore
from ocibridge.transfer import Progress, Task

from ..formats.ollama.samples import DOCKER, MODELS, gguf, tree
from ..registry import RegistryServer, registry_server
from .ollama import SMALL, digest_of, manifest_of, switch

LAYERS = (None, "tar", "raw")
DOCKER_MODELS = [name for name in MODELS if "layers-only" not in name]


class Moved(Progress):
    """Counts the bytes that move, and remembers how tasks end."""

    def __init__(self) -> None:
        self.bytes = 0
        self.outcomes: dict[str, str] = {}

    def advance(self, task: Task, count: int) -> None:
        self.bytes += count if task.phase in ("uploading", "downloading") else 0

    def finish(self, task: Task, outcome: str) -> None:
        self.outcomes[task.label] = outcome


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("kind", ["registry", "oci", "oci-archive"])
def test_every_model_of_the_fixtures_comes_back(
    kind: str,
    layers: str | None,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    registry: RegistryServer,
    repository: str,
) -> None:
    place = {
        "registry": f"{registry.host}/{repository}",
        "oci": f"oci:{tmp_path / 'layout'}",
        "oci-archive": f"oci-archive:{tmp_path / 'layout.tar'}",
    }[kind]
    pushed = {}
    for number, (name, facts) in enumerate(MODELS.items()):
        pushed[name] = ocibridge.push(f"ollama:{name}", f"{place}:{number}", ocibridge.PushOptions(layers=layers))
        assert pushed[name].identity == facts["manifest_digest"].replace("sha256:", "ollama:")
        proven = ocibridge.verify(pushed[name].reference)
        assert proven.identity == pushed[name].identity
        assert ocibridge.inspect(pushed[name].reference).identity == pushed[name].identity
        if layers is None:
            digests = {layer.digest for layer in pushed[name].layers}
            rows = json.loads(manifest_of(store, name))["layers"]
            assert {row["digest"] for row in rows} < digests, "every blob keeps its digest"
    new = switch(monkeypatch, tmp_path / "new")
    for name, report in pushed.items():
        pulled = ocibridge.pull(report.reference, f"ollama:{name}")
        assert (pulled.identity, pulled.format, pulled.target) == (report.identity, "ollama", f"ollama:{name}")
    assert tree(new) == tree(store)


@pytest.mark.parametrize("name", MODELS)
def test_looking_at_a_model_in_the_store(name: str, store: Path) -> None:
    found = ocibridge.inspect(f"ollama:{name}")
    assert found.kind == "path"
    assert found.identity == MODELS[name]["manifest_digest"].replace("sha256:", "ollama:")
    assert found.source == f"ollama:{parse_ollama_name(name).short}"
    proven = ocibridge.verify(f"ollama:{name}")
    assert proven.identity == found.identity
    blob = store / "blobs" / f"sha256-{max(found.files, key=lambda file: file.size or 0).sha256}"
    blob.write_bytes(b"\0" * blob.stat().st_size)
    with pytest.raises(ocibridge.OcibridgeError):
        ocibridge.verify(f"ollama:{name}")


def test_compression_asks_for_tar(store: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(f"ollama:{SMALL}", f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(compress="zstd"))
    assert all(layer.media_type.endswith(".tar+zstd") for layer in pushed.layers)
    assert ocibridge.verify(pushed.reference).identity == pushed.identity


def test_stripping_from(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local path in a `from` field is warned about, and left out on demand: that is another model then."""
    path = LocalOllama(store).manifest_path(parse_ollama_name(SMALL))
    document = json.loads(path.read_bytes())
    document["layers"][0]["from"] = "/home/me/secret.gguf"
    path.write_bytes(json.dumps(document).encode())
    target = f"oci:{tmp_path / 'layout'}"
    kept = ocibridge.push(f"ollama:{SMALL}", f"{target}:kept")
    assert any("--strip-from" in each for each in kept.warnings)
    stripped = ocibridge.push(
        f"ollama:{SMALL}", f"{target}:stripped", ocibridge.PushOptions(reading={"strip_from": True})
    )
    assert stripped.identity != kept.identity
    assert any("another ID" in each for each in stripped.warnings)
    new = switch(monkeypatch, tmp_path / "new")
    ocibridge.pull(stripped.reference, f"ollama:{SMALL}")
    assert b"secret" not in manifest_of(new, SMALL)
    with pytest.raises(ocibridge.UsageError, match="models of Ollama"):
        ocibridge.push(tmp_path, f"{target}:v1", ocibridge.PushOptions(reading={"strip_from": True}))


def test_a_dialect_without_raw_layers_asks_for_tar(store: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(f"ollama:{SMALL}", f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(dialect="draft"))
    assert ocibridge.verify(pushed.reference).identity == pushed.identity


# Pulling.


def test_blobs_that_the_store_has_do_not_move(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: RegistryServer, repository: str
) -> None:
    pushed = ocibridge.push(f"ollama:{SMALL}", f"{registry.host}/{repository}:v1")
    first = Moved()
    new = switch(monkeypatch, tmp_path / "new")
    ocibridge.pull(pushed.reference, "ollama:a", progress=first)
    assert first.bytes == sum(layer.size for layer in pushed.layers)
    again = Moved()
    report = ocibridge.pull(pushed.reference, "ollama:b", progress=again)
    assert report.identity == pushed.identity
    manifest = manifest_of(store, SMALL)
    assert again.bytes == len(manifest), "only the manifest moves"
    assert {label for label, how in again.outcomes.items() if how != "skipped"} == {"ollama/manifest.json"}
    assert manifest_of(new, "b") == manifest

    weight = max(pushed.layers, key=lambda layer: layer.size)
    blob = new / "blobs" / weight.digest.replace(":", "-")
    good = blob.read_bytes()
    blob.write_bytes(b"\0" * len(good))
    repaired = Moved()
    ocibridge.pull(pushed.reference, "ollama:c", progress=repaired)
    assert repaired.bytes == len(manifest) + weight.size
    assert blob.read_bytes() == good


def test_another_model_of_that_name_is_replaced_by_overwrite_only(store: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(f"ollama:{SMALL}", f"oci:{tmp_path / 'layout'}:v1")
    before = tree(store)
    with pytest.raises(ocibridge.DestinationError, match="--overwrite"):
        ocibridge.pull(pushed.reference, "ollama:mylab/tinyllama-test:q8")
    assert tree(store) == before
    ocibridge.pull(pushed.reference, "ollama:mylab/tinyllama-test:q8", ocibridge.PullOptions(overwrite=True))
    assert manifest_of(store, "mylab/tinyllama-test:q8") == manifest_of(store, SMALL)


@pytest.mark.parametrize(
    ("dest", "options", "kind", "word"),
    [
        ("ollama:../x", {}, ocibridge.InvalidReference, "not valid"),
        ("ollama:", {}, ocibridge.InvalidReference, "not valid"),
        ("ollama://registry.example/library/x", {}, ocibridge.UsageError, "--also ollama"),
        ("ollama:x", {"as_format": "folder"}, ocibridge.UsageError, "--as"),
    ],
)
def test_targets_that_are_refused(
    dest: str,
    options: dict[str, str],
    kind: type[ocibridge.OcibridgeError],
    word: str,
    store: Path,
    tmp_path: Path,
) -> None:
    pushed = ocibridge.push(f"ollama:{SMALL}", f"oci:{tmp_path / 'layout'}:v1")
    before = tree(store)
    with pytest.raises(kind, match=word):
        ocibridge.pull(pushed.reference, dest, ocibridge.PullOptions(**options))  # type: ignore[arg-type]
    assert tree(store) == before


@pytest.mark.parametrize("layers", ["tar", "raw", "raw-files"])
def test_a_folder_with_gguf_weights(
    layers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    registry: RegistryServer,
    repository: str,
) -> None:
    """An artifact that never was an Ollama model becomes one, with the same manifest each time."""
    folder = tmp_path / "folder"
    folder.mkdir()
    weights = gguf(general__name="Foreign") + b"\0" * 50_000
    (folder / "foreign-F16.gguf").write_bytes(weights)
    (folder / "LICENSE").write_text("MIT\n")
    (folder / "params").write_text('{"temperature":0.5}\n')
    pushed = ocibridge.push(folder, f"{registry.host}/{repository}:v1", ocibridge.PushOptions(layers=layers))
    found = set()
    for number in range(2):
        new = switch(monkeypatch, tmp_path / f"new{number}")
        report = ocibridge.pull(pushed.reference, "ollama:foreign")
        manifest = manifest_of(new, "foreign")
        assert report.identity == "ollama:" + hashlib.sha256(manifest).hexdigest()
        kinds = {row["mediaType"].rpartition(".")[2]: row["digest"] for row in json.loads(manifest)["layers"]}
        assert kinds["model"] == digest_of(weights)
        assert set(kinds) == {"model", "license", "params"}
        assert ocibridge.verify("ollama:foreign").identity == report.identity
        found.add(manifest)
        again = Moved()
        ocibridge.pull(pushed.reference, "ollama:again", progress=again)
        assert manifest_of(new, "again") == manifest
        assert layers == "tar" or again.bytes < len(weights)
    assert len(found) == 1


def test_a_model_without_gguf(store: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "model.bin").write_bytes(b"x")
    pushed = ocibridge.push(tmp_path / "folder", f"oci:{tmp_path / 'layout'}:v1")
    with pytest.raises(ocibridge.FormatError, match="no GGUF file"):
        ocibridge.pull(pushed.reference, "ollama:x")


@pytest.mark.parametrize("layers", ["raw-files", "tar"])
def test_a_lie_about_the_blobs_is_found(layers: str, store: Path, tmp_path: Path) -> None:
    """Every digest of the artifact holds, but a blob that the Ollama manifest names is another one."""
    from dataclasses import replace

    from ocibridge.dialects.choices import Layers
    from ocibridge.dialects.writing import PlanOptions, plan_manifest
    from ocibridge.io.content import BytesContent
    from ocibridge.stores.layout import LayoutStore
    from ocibridge.transfer import publish

    model = read_local(SMALL, OllamaReadOptions(), store)
    for path in ("model.gguf", "ollama/manifest.json"):
        forged = replace(
            model,
            files=tuple(
                each._replace(content=BytesContent(b'{"layers":[]}'), sha256=None) if each.path == path else each
                for each in model.files
            ),
        )
        plan = plan_manifest(forged, PlanOptions(layers=Layers(layers)))
        target = f"oci:{tmp_path / 'layout'}:v1"
        publish(plan, LayoutStore(tmp_path / "layout", create=True), "v1")
        with pytest.raises(ocibridge.IntegrityError):
            ocibridge.verify(target)
    missing = replace(model, files=model.files[1:])
    publish(plan_manifest(missing, PlanOptions()), LayoutStore(tmp_path / "layout", create=True), "v1")
    with pytest.raises(ocibridge.IntegrityError, match="did not come"):
        ocibridge.verify(target)


# --also ollama.


@pytest.mark.parametrize("name", DOCKER_MODELS)
def test_the_original_manifest_is_published_beside(
    name: str,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    registry: RegistryServer,
    repository: str,
) -> None:
    target = f"{registry.host}/{repository}"
    pushed = ocibridge.push(f"ollama:{name}", f"{target}:v1", ocibridge.PushOptions(also=["ollama"]))
    manifest = manifest_of(store, name)
    (also,) = pushed.also
    assert (also.kind, also.tag, also.digest) == ("ollama", "v1-ollama", digest_of(manifest))
    url = f"http://{registry.host}/v2/{repository}"
    answer = httpx.get(f"{url}/manifests/v1-ollama", headers={"Accept": DOCKER})
    assert answer.content == manifest
    assert answer.headers["content-type"] == DOCKER
    for row in (json.loads(manifest)["config"], *json.loads(manifest)["layers"]):
        assert httpx.head(f"{url}/blobs/{row['digest']}").status_code == 200

    # What Ollama would see there is the same model again.
    remote = f"ollama://{target}:v1-ollama"
    assert ocibridge.inspect(remote).identity == pushed.identity
    assert ocibridge.verify(remote).identity == pushed.identity
    again = ocibridge.push(remote, f"oci:{tmp_path / 'layout'}:v1")
    assert again.identity == pushed.identity
    assert [layer.digest for layer in again.layers] == [layer.digest for layer in pushed.layers]
    new = switch(monkeypatch, tmp_path / "new")
    ocibridge.pull(again.reference, f"ollama:{name}")
    assert manifest_of(new, name) == manifest


@pytest.mark.parametrize("kind", ["oci", "oci-archive"])
def test_beside_in_a_layout(kind: str, store: Path, tmp_path: Path) -> None:
    target = f"{kind}:{tmp_path / 'layout'}"
    pushed = ocibridge.push(f"ollama:{SMALL}", target, ocibridge.PushOptions(also=["ollama"]))
    assert [each.tag for each in pushed.also] == ["latest-ollama"]
    assert ocibridge.verify(target).identity == pushed.identity


@pytest.mark.parametrize(
    ("source", "options", "kind", "word"),
    [
        (f"ollama:{SMALL}", {"layers": "tar"}, ocibridge.UsageError, "raw-files"),
        (f"ollama:{SMALL}", {"compress": "gzip"}, ocibridge.UsageError, "raw-files"),
        (f"ollama:{SMALL}", {"also": ["docker"]}, ocibridge.UsageError, "ollama"),
        ("ollama:x/layers-only-test", {}, ocibridge.FormatError, "only layers"),
        ("digits.carton", {"layers": "raw-files"}, ocibridge.FormatError, "no Ollama manifest"),
        ("digits.carton", {}, ocibridge.UsageError, "raw-files"),
    ],
)
def test_what_cannot_be_published_beside(
    source: str,
    options: dict[str, object],
    kind: type[ocibridge.OcibridgeError],
    word: str,
    store: Path,
    tmp_path: Path,
) -> None:
    found = source if source.startswith("ollama:") else Path(__file__).parent.parent / "fixtures" / source
    with pytest.raises(kind, match=word):
        ocibridge.push(found, f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(**{"also": ["ollama"], **options}))  # type: ignore[arg-type]
    assert not (tmp_path / "layout").exists(), "refused before anything is written"


def test_a_tag_that_would_be_too_long(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.InvalidReference):
        ocibridge.push(
            f"ollama:{SMALL}", f"oci:{tmp_path / 'layout'}:{'x' * 128}", ocibridge.PushOptions(also=["ollama"])
        )
    assert not (tmp_path / "layout").exists()


# Mounting.


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A registry that logs every request."""
    with registry_server(tmp_path_factory.mktemp("logged"), access_log=True) as server:
        yield server


_UPLOAD = re.compile(r'"(POST|PUT|PATCH) /v2/(\S+)/blobs/uploads/(\S*) HTTP/1.1" (\d+)')


def uploads(server: RegistryServer, repository: str) -> dict[str, list[str]]:
    """What the log says of the uploads into a repository: digests that were mounted, and those that were sent."""
    marker, end = uuid.uuid4().hex, time.monotonic() + 30
    httpx.get(f"http://{server.host}/v2/{marker}/manifests/end")
    while marker not in (log := server.log()):  # what came before is in the log, too
        assert time.monotonic() < end
        time.sleep(0.05)
    found: dict[str, list[str]] = {"mounted": [], "sent": []}
    for method, name, rest, status in _UPLOAD.findall(log):
        if name == repository and method == "POST" and "mount=" in rest and status == "201":
            found["mounted"].append(httpx.URL("http://x/" + rest).params["mount"])
        elif name == repository and status == "201":
            found["sent"].append(httpx.URL("http://x/" + rest).params["digest"])
    return found


def put_docker_model(host: str, repository: str, store: Path, name: str) -> bytes:
    """Upload a model as `ollama push` does."""
    manifest = manifest_of(store, name)
    model = LocalOllama(store)
    with RegistryStore(RegistryReference(host, repository)) as target:
        for row in (json.loads(manifest)["config"], *json.loads(manifest)["layers"]):
            blob = Descriptor(media_type=row["mediaType"], digest=row["digest"], size=row["size"])
            target.push_blob(blob, model.blob(blob))
        target.push_manifest(manifest, DOCKER, "v1")
    return manifest


@pytest.mark.parametrize("way", ["source", "option", "local"])
@pytest.mark.parametrize("name", DOCKER_MODELS)
def test_blobs_of_another_repository_are_mounted(
    name: str, way: str, store: Path, tmp_path: Path, repository: str, logged: RegistryServer
) -> None:
    """Only the manifest, the config and the copy of the Ollama manifest are sent."""
    origin = f"lib/{repository.rpartition('/')[2]}"
    manifest = put_docker_model(logged.host, origin, store, name)
    assert uploads(logged, origin)["mounted"] == []
    assert len(uploads(logged, origin)["sent"]) >= 3
    if way == "source":
        source, mount_from = f"ollama://{logged.host}/{origin}:v1", []
    elif way == "option":
        source, mount_from = f"ollama://{logged.host}/{origin}:v1", ["lib/nothing", origin]
    else:
        source, mount_from = f"ollama:{name}", [origin]
    moved = Moved()
    pushed = ocibridge.push(
        source, f"{logged.host}/{repository}:v1", ocibridge.PushOptions(mount_from=mount_from), progress=moved
    )
    copy = digest_of(manifest)
    assert {layer.digest: layer.action for layer in pushed.layers if layer.action != "mounted"} == {copy: "uploaded"}
    assert moved.bytes == len(manifest), "of all layers, only the small metadata layer moves"

    answer = httpx.get(
        f"http://{logged.host}/v2/{repository}/manifests/{pushed.digest}", headers={"Accept": MEDIA_TYPE_MANIFEST}
    )
    config = json.loads(answer.content)["config"]
    seen = uploads(logged, repository)
    assert sorted(seen["sent"]) == sorted([copy, config["digest"]])
    assert sorted(seen["mounted"]) == sorted({layer.digest for layer in pushed.layers} - {copy})
    assert config["size"] < 2048
    assert ocibridge.verify(pushed.reference).identity == "ollama:" + copy[7:]


def test_a_mount_that_fails_is_an_upload(
    store: Path, tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    target = f"{registry.host}/{repository}:v1"
    pushed = ocibridge.push(f"ollama:{SMALL}", target, ocibridge.PushOptions(mount_from=["lib/nothing"]))
    assert {layer.action for layer in pushed.layers} == {"uploaded"}


@pytest.mark.parametrize(
    ("target", "name", "word"),
    [
        ("oci:layout:v1", "lib/x", "inside a registry"),
        ("localhost:1/a/b:v1", "lib/x:v1", "no repository"),
        ("localhost:1/a/b:v1", "Lib", "no repository"),
        ("localhost:1/a/b:v1", "lib/x@sha256:" + "0" * 64, "no repository"),
        ("localhost:1/a/b:v1", "", "no repository"),
    ],
)
def test_places_that_are_no_place_to_mount_from(target: str, name: str, word: str, store: Path) -> None:
    with pytest.raises(ocibridge.UsageError, match=word):
        ocibridge.push(f"ollama:{SMALL}", target, ocibridge.PushOptions(mount_from=[name]))
