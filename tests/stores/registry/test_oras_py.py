# SPDX-License-Identifier: Apache-2.0
"""Code written for oras-py 0.2.43, as its documentation shows it: the same lines with its own client and with ours."""

from __future__ import annotations

import gc
import json
import tarfile
import warnings
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import oras.decorator
import oras.defaults
import oras.oci
import oras.provider
import oras.schemas
import oras.utils
import pytest
import requests

from ocibridge.errors import AuthenticationError, NotFound, OcibridgeError
from ocibridge.oci import sha256_digest

from ...registry import PASSWORD, USER, RegistryServer
from .oras_bench import ABSENT, DATA, Bench, artifact, bench, logged

__all__ = ["artifact", "bench", "logged"]


def test_it_is_one_of_theirs(bench: Bench) -> None:
    client = bench.client(hostname=bench.host, insecure=True)
    assert isinstance(client, oras.provider.Registry)
    assert "Python version" in client.version()
    assert client.version(return_items=True)["Version"] == version("oras")
    assert (str(client), client.hostname, client.prefix) == ("[oras-client]", bench.host, "http")
    assert (bench.client(insecure=True).prefix, bench.client().prefix) == ("http", "https")


def test_names(bench: Bench) -> None:
    client = bench.client(hostname=bench.host, insecure=True)
    container = client.get_container("models/digits:v1")
    assert (container.registry, container.api_prefix, container.tag) == (bench.host, "models/digits", "v1")
    assert client.get_container(container) is container
    other = client.get_container(f"ghcr.io/a/b@{ABSENT}")
    assert other.uri == f"ghcr.io/a/b@{ABSENT}"
    with pytest.raises((ValueError, OcibridgeError)):
        client.get_container("")


def test_push_and_pull(bench: Bench, tmp_path: Path) -> None:
    client = bench.client(insecure=True)
    response = client.push(files=["artifact.txt"], target=bench.target)
    assert isinstance(response, requests.Response)
    assert (response.status_code, response.reason, response.ok) == (201, "Created", True)
    assert response.headers["Docker-Content-Digest"] == bench.digest("v1")
    assert response.url == f"http://{bench.host}/v2/{bench.repository.partition('/')[2]}/manifests/v1"
    (anywhere,) = client.pull(target=bench.target)
    assert Path(anywhere).read_bytes() == DATA
    files = client.pull(target=bench.target, outdir=str(tmp_path / "out"))
    assert files == [str(tmp_path / "out" / "artifact.txt")]
    assert Path(files[0]).read_bytes() == DATA


def test_files_outside_of_the_working_folder(bench: Bench, tmp_path: Path) -> None:
    client = bench.client(hostname=bench.host, insecure=True)
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"x")
    with pytest.raises(ValueError, match="present working directory"):
        client.push(files=[outside], target=bench.target)
    assert client.push(files=[outside], target=bench.target, disable_path_validation=True).status_code == 201
    with pytest.raises(FileNotFoundError):
        client.push(files=["none.txt"], target=bench.target)


def test_existing_files_stay(bench: Bench, tmp_path: Path) -> None:
    client = bench.client(insecure=True)
    client.push(files=["./artifact.txt"], target=bench.target)
    (tmp_path / "artifact.txt").write_bytes(b"mine")
    assert client.pull(target=bench.target, outdir=str(tmp_path), overwrite=False) == []
    assert (tmp_path / "artifact.txt").read_bytes() == b"mine"
    client.pull(target=bench.target, outdir=str(tmp_path), overwrite=True)
    assert (tmp_path / "artifact.txt").read_bytes() == DATA


def test_annotations_config_and_media_types(bench: Bench, tmp_path: Path) -> None:
    client = bench.client(insecure=True)
    annotations = {"$manifest": {"a": "file", "b": "file"}, "$config": {"c": "é<&>"}, "artifact.txt": {"d": "1"}}
    Path("annotations.json").write_text(json.dumps(annotations))
    Path("config.json").write_text("{}")
    response = client.push(
        target=bench.target,
        files=["artifact.txt:text/plain"],
        annotation_file="annotations.json",
        manifest_annotations={"b": "argument"},
        manifest_config="config.json:application/vnd.test+json",
    )
    manifest = client.get_manifest(bench.target, validation_schema=oras.schemas.manifest)
    assert manifest == {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.test+json",
            "size": 2,
            "digest": sha256_digest(b"{}"),
            "annotations": {"c": "é<&>"},
        },
        "layers": [
            {
                "mediaType": "text/plain",
                "size": len(DATA),
                "digest": sha256_digest(DATA),
                "annotations": {"org.opencontainers.image.title": "artifact.txt", "d": "1"},
            }
        ],
        "annotations": {"a": "file", "b": "argument"},
    }
    # The bytes, too, are those of oras-py: its `Subject.from_manifest` relies on them.
    assert response.headers["Docker-Content-Digest"] == sha256_digest(json.dumps(manifest).encode())
    assert client.get_manifest(bench.target, [oras.defaults.default_manifest_media_type]) == manifest


def test_a_folder(bench: Bench, tmp_path: Path) -> None:
    client = bench.client(hostname=bench.host, insecure=True)
    Path("data").mkdir()
    Path("data/a.bin").write_bytes(DATA)
    client.push(files=["data"], target=bench.target)
    (layer,) = client.get_manifest(bench.target)["layers"]
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
    files = client.pull(target=bench.target, outdir=str(tmp_path))
    assert files == [str(tmp_path / "data")]
    assert (tmp_path / "data" / "a.bin").read_bytes() == DATA
    packed = client.get_blob(bench.target, layer["digest"])
    with tarfile.open(fileobj=BytesIO(packed.content), mode="r:gz") as archive:
        assert "data/a.bin" in archive.getnames()


def test_chunks(bench: Bench, tmp_path: Path) -> None:
    client = bench.client(insecure=True)
    # The layer of each run is its own: a registry does not take what it has.
    data = bench.target.encode() * 1000
    Path("artifact.txt").write_bytes(data)
    response = client.push(
        files=["artifact.txt"], target=bench.target, do_chunked=True, chunk_size=len(data) // 3, quiet=True
    )
    assert response.status_code == 201
    path = f'"PATCH /v2/{bench.repository.partition("/")[2]}/'
    assert bench.server.log().count(path) == 3 + (len(data) % 3 > 0)
    (file,) = client.pull(target=bench.target, outdir=str(tmp_path))
    assert Path(file).read_bytes() == data


def test_an_artifact_is_attached(bench: Bench) -> None:
    client = bench.client(insecure=True)
    client.push(files=["artifact.txt"], target=bench.target)
    subject = oras.oci.Subject.from_manifest(client.get_manifest(bench.target))
    assert subject.digest == bench.digest("v1")
    derived = f"{bench.target}-derived"
    Path("derived.txt").write_bytes(b"derived")
    assert client.push(files=["derived.txt"], target=derived, subject=subject).status_code == 201
    assert client.get_manifest(derived)["subject"] == {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": bench.digest("v1"),
        "size": subject.size,
    }


def test_a_manifest_by_hand(bench: Bench) -> None:
    client = bench.client(hostname=bench.host, insecure=True)
    container = client.get_container(bench.target)
    layer = oras.oci.NewLayer("artifact.txt", media_type="application/x-org.dinosaur")
    layer["annotations"] = {oras.defaults.annotation_title: "artifact.txt"}
    Path("config.json").write_text('{"a":1}')
    config, config_file = oras.oci.ManifestConfig("config.json")
    manifest = oras.oci.NewManifest()
    manifest["layers"].append(layer)
    manifest["annotations"] = {"org.dinosaur.tool.food": "avocado"}
    manifest["config"] = config
    for path, described in (("artifact.txt", layer), (config_file, config)):
        assert not client.blob_exists(described, container)
        response = client.upload_blob(path, container, described)
        client._check_200_response(response)
        assert response.status_code == 201
        assert client.blob_exists(described, container)
        assert client.blob_exists({"digest": described["digest"]}, container)
        assert client.upload_blob(path, container, described).status_code == 200
    client._check_200_response(client.upload_manifest(manifest, container))
    assert client.get_manifest(bench.target) == client.get_manifest(container) == manifest
    assert client.get_manifest(f"{bench.repository}@{bench.digest('v1')}") == manifest


def test_tags(bench: Bench) -> None:
    client = bench.client(hostname=bench.host, insecure=True)
    for tag in ("d", "b", "a", "c"):
        Path("artifact.txt").write_text(tag)
        client.push(files=["artifact.txt"], target=f"{bench.repository}:{tag}")
    name = bench.repository.partition("/")[2]
    everything = client.get_tags(name)
    assert sorted(everything) == ["a", "b", "c", "d"]
    # The order is the registry's.
    assert client.get_tags(bench.target) == client.get_tags(name, N=4) == client.get_tags(name, N=1005) == everything
    for count in (1, 3):
        assert len(client.get_tags(name, N=count)) == count
        assert set(client.get_tags(name, N=count)) < set(everything)
    assert client.delete_tag(name, "a") is True
    assert client.delete_tag(name, "a") is False
    assert client.delete_tags(name, ["b", "x", "c"]) == ["b", "c"]
    assert client.delete_tags(name, "y") == []
    assert client.get_tags(name) == ["d"]


def test_blobs(bench: Bench, tmp_path: Path) -> None:
    client = bench.client(insecure=True)
    Path("artifact.txt").write_text('{"a": 1}')
    client.push(files=["artifact.txt"], target=bench.target)
    digest = oras.oci.NewLayer("artifact.txt")["digest"]
    container = client.get_container(bench.target)
    whole = client.get_blob(container, digest)
    assert (whole.status_code, whole.json(), whole.headers["Content-Length"]) == (200, {"a": 1}, "8")
    head = client.get_blob(container, digest, head=True)
    assert (head.status_code, head.content, head.headers["Content-Length"]) == (200, b"", "8")
    with client.get_blob(bench.target, digest, stream=True) as response:
        response.raise_for_status()
        assert b"".join(response.iter_content(chunk_size=3)) == b'{"a": 1}'
    with client.get_blob(bench.target, digest, stream=True) as response:
        assert (response.raw.read(2), response.raw.read()) == (b'{"', b'a": 1}')
    path = str(tmp_path / "new" / "folder" / "file")
    assert client.download_blob(bench.target, digest, path) == path
    assert Path(path).read_text() == '{"a": 1}'
    for options in ({}, {"head": True}, {"stream": True}):
        missing = client.get_blob(container, ABSENT, **options)
        assert (missing.status_code, missing.ok) == (404, False)
        missing.close()
    assert client.get_blob(container, ABSENT).json()["errors"][0]["code"] == "BLOB_UNKNOWN"
    with pytest.raises((requests.HTTPError, NotFound)):
        client.download_blob(container, ABSENT, str(tmp_path / "missing"))
    assert not (tmp_path / "missing").exists()


def test_requests_of_their_own(bench: Bench) -> None:
    client = bench.client(insecure=True)
    container = client.get_container(bench.target)
    client.push(files=["artifact.txt"], target=bench.target)
    listing = client.do_request(f"{client.prefix}://{container.tags_url()}", "GET")
    assert listing.json()["tags"] == ["v1"]
    manifest = client.get_manifest(bench.target)
    url = f"{client.prefix}://{container.manifest_url('v2')}"
    headers = {"Content-Type": manifest["mediaType"]}
    assert client.do_request(url, "PUT", headers=headers, json=manifest).status_code == 201
    assert client.do_request(url, "PUT", headers=headers, data=json.dumps(manifest).encode()).status_code == 201
    assert bench.digest("v2") == bench.digest("v1")
    found = client.do_request(url, "HEAD", headers={"Accept": manifest["mediaType"]})
    assert found.headers["docker-content-digest"] == bench.digest("v1")
    with client.do_request(url, headers={"Accept": manifest["mediaType"]}, stream=True) as response:
        assert json.loads(b"".join(response.iter_content(100))) == manifest
    missing = client.do_request(f"{client.prefix}://{container.manifest_url('v3')}")
    assert (missing.status_code, missing.json()["errors"][0]["code"]) == (404, "MANIFEST_UNKNOWN")
    with pytest.raises((ValueError, OcibridgeError)):
        client._check_200_response(missing)


def test_a_class_of_their_own(bench: Bench, tmp_path: Path) -> None:
    base: Any = bench.base

    class Provider(base):  # type: ignore[misc]
        @oras.decorator.ensure_container  # type: ignore[untyped-decorator]
        def push(self, container: Any, archives: dict[str, str]) -> Any:
            manifest = oras.oci.NewManifest()
            for blob, media_type in archives.items():
                layer = oras.oci.NewLayer(blob, media_type, is_dir=False)
                layer["annotations"] = {oras.defaults.annotation_title: Path(blob).name}
                manifest["layers"].append(layer)
                self._check_200_response(self.upload_blob(blob, container, layer))
            Path("empty.json").write_text("{}")
            manifest["config"], config = oras.oci.ManifestConfig("empty.json")
            self._check_200_response(self.upload_blob(config, container, manifest["config"]))
            response = self.upload_manifest(manifest, container)
            self._check_200_response(response)
            return response

        @oras.decorator.ensure_container  # type: ignore[untyped-decorator]
        def download_layers(self, package: Any, folder: str, media_type: str) -> list[str]:
            return [
                self.download_blob(
                    package,
                    layer["digest"],
                    oras.utils.sanitize_path(
                        folder, f"{folder}/{layer['annotations'][oras.defaults.annotation_title]}"
                    ),
                )
                for layer in self.get_manifest(package)["layers"]
                if layer["mediaType"] == media_type
            ]

    client = bench.client(Provider, hostname=bench.host, insecure=True)
    Path("sbom.json").write_text("[]")
    archives = {"artifact.txt": "text/plain", "sbom.json": "application/vnd.cyclonedx"}
    assert client.push(bench.target, archives).status_code == 201
    (file,) = client.download_layers(bench.target, str(tmp_path), "application/vnd.cyclonedx")
    assert Path(file) == tmp_path / "sbom.json"
    assert Path(file).read_text() == "[]"


def test_credentials(bench: Bench, auth_registry: RegistryServer) -> None:
    target = f"{auth_registry.host}/{bench.repository.partition('/')[2]}:v1"
    client = bench.client(hostname=auth_registry.host, insecure=True, auth_backend="basic")
    client.auth.set_basic_auth(USER, PASSWORD)
    assert client.push(files=["artifact.txt"], target=target).status_code == 201
    wrong = bench.client(hostname=auth_registry.host, insecure=True, auth_backend="basic")
    wrong.auth.set_basic_auth(USER, "wrong")
    with pytest.raises((ValueError, AuthenticationError)):
        wrong.get_tags(target)


def test_login_and_logout(
    bench: Bench, auth_registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without it, oras-py asks docker's engine to log in, where there is one, which writes no file.
    monkeypatch.setattr(oras.utils, "get_docker_client", None)
    host, path = auth_registry.host, str(tmp_path / "config.json")
    target = f"{host}/{bench.repository.partition('/')[2]}:v1"
    options = {"hostname": host, "insecure": True, "auth_backend": "basic"}
    client = bench.client(**options)
    done = client.login(username=USER, password=PASSWORD, hostname=host, tls_verify=False, config_path=path)
    assert done["Status"] == "Login Succeeded"
    assert host in json.loads(Path(path).read_text())["auths"]
    assert client.push(files=["artifact.txt"], target=target).status_code == 201
    other = bench.client(**options)
    assert other.push(files=["artifact.txt"], target=target, config_path=path).status_code == 201
    (file,) = bench.client(**options).pull(target=target, outdir=str(tmp_path), config_path=path)
    assert Path(file).read_bytes() == DATA
    client.logout(host)


def test_fields_of_their_own(bench: Bench) -> None:
    client = bench.client(hostname=bench.host, insecure=True)
    client.push(files=["artifact.txt"], target=bench.target)
    client.set_header("Referer", f"https://example.test/{bench.repository}")
    before = bench.server.log().count(f"example.test/{bench.repository}")
    assert client.get_tags(bench.target) == ["v1"]
    assert client.get_blob(bench.target, sha256_digest(DATA)).content == DATA
    assert bench.server.log().count(f"example.test/{bench.repository}") >= before + 2


def test_nobody_has_to_close_it(bench: Bench) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        bench.base(insecure=True).push(files=["artifact.txt"], target=bench.target)
        gc.collect()
    assert [str(each.message) for each in found] == []
