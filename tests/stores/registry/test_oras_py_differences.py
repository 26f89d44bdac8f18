# SPDX-License-Identifier: Apache-2.0
"""Where our client differs from that of oras-py on purpose, and what of oras-py runs on top of it."""

from __future__ import annotations

import json
from pathlib import Path

import oras.oci
import oras.provider
import pytest

from ocibridge.errors import AuthenticationError, IntegrityError
from ocibridge.oci import sha256_digest
from ocibridge.stores.registry import RegistryClient

from ...registry import PASSWORD, USER, RegistryServer
from .fault_server import FaultServer, Reply
from .oras_bench import CLIENTS, DATA, Bench, artifact, logged, ours

__all__ = ["artifact", "logged", "ours"]


def test_ours_enters_it_into_the_list_of_referrers(ours: Bench) -> None:
    # "Pushing Manifests with Subject": a client has to, where the registry does not. oras-py does not.
    client = ours.client(insecure=True)
    client.push(files=["artifact.txt"], target=ours.target)
    subject = oras.oci.Subject.from_manifest(client.get_manifest(ours.target))
    client.push(files=["artifact.txt"], target=f"{ours.repository}:derived", subject=subject)
    tag = ours.digest("v1").replace(":", "-")
    assert sorted(client.get_tags(ours.repository)) == sorted(["derived", tag, "v1"])
    (entry,) = client.get_manifest(f"{ours.repository}:{tag}")["manifests"]
    assert entry["digest"] == ours.digest("derived")


@pytest.mark.parametrize(("kind", "left"), [("stock", []), ("ours", ["other"])])
def test_what_is_deleted_with_a_tag_differs(
    logged: RegistryServer, repository: str, kind: str, left: list[str]
) -> None:
    # oras-py deletes the manifest, and with it every other tag that it has; ours deletes the tag that was named.
    bench = Bench(kind, logged, repository)
    client = bench.client(insecure=True)
    for tag in ("one", "other"):
        client.push(files=["artifact.txt"], target=f"{bench.repository}:{tag}")
    assert bench.digest("one") == bench.digest("other")
    assert client.delete_tag(bench.repository, "one") is True
    assert client.get_tags(bench.repository) == left
    bench.close()


@pytest.mark.parametrize("upload", ["put_upload", "chunked_upload"])
def test_their_methods_run_on_our_requests(ours: Bench, upload: str, tmp_path: Path) -> None:
    # What others have copied from oras-py into classes of their own has `do_request` and `prefix` alone to rely on.
    stock, client = oras.provider.Registry, ours.client(insecure=True)
    container = client.get_container(ours.target)
    Path("artifact.txt").write_text(ours.target * 1000)
    layer = oras.oci.NewLayer("artifact.txt")
    options = {"chunk_size": 10_000} if upload == "chunked_upload" else {}
    assert not stock.blob_exists(client, layer, container)
    assert getattr(stock, upload)(client, "artifact.txt", container, layer, **options).status_code == 201
    assert stock.blob_exists(client, layer, container)
    manifest = {**oras.oci.NewManifest(), "config": layer, "layers": []}
    assert stock.upload_manifest(client, manifest, container).status_code == 201
    assert stock.get_manifest(client, container) == manifest
    assert stock.get_tags(client, container) == ["v1"]
    path = str(tmp_path / "file")
    assert stock.download_blob(client, container, layer["digest"], path) == path
    assert Path(path).read_text() == ours.target * 1000
    assert stock.get_blob(client, container, layer["digest"], head=True).headers["Content-Length"] == str(layer["size"])
    assert stock.delete_tag(client, container, "v1") is True


def test_ours_proves_a_login_and_forgets_it(auth_registry: RegistryServer, tmp_path: Path) -> None:
    # oras-py stores whatever it is given, and leaves it in the file after a logout.
    host, path = auth_registry.host, str(tmp_path / "config.json")
    client = RegistryClient(host, insecure=True)
    with pytest.raises(AuthenticationError):
        client.login(username=USER, password="wrong", hostname=host, config_path=path)
    assert not Path(path).exists()
    client.login(username=USER, password=PASSWORD, hostname=host, config_path=path)
    client.logout(host)
    assert json.loads(Path(path).read_text())["auths"] == {}
    client.close()


def test_ours_tells_its_own_fields_to_registries_only(tmp_path: Path) -> None:
    digest = sha256_digest(DATA)
    with FaultServer() as server, FaultServer("localhost") as other:
        challenge = {"WWW-Authenticate": f'Bearer realm="{other.url}/token",service="s"'}
        server.on("HEAD", f"/v2/r/blobs/{digest}", Reply(401, headers=challenge), Reply(200, DATA))
        server.on("GET", f"/v2/r/blobs/{digest}", Reply(307, headers={"Location": f"{other.url}/storage"}))
        other.on("GET", "/token", Reply(200, b'{"token":"t-1"}'))
        other.on("GET", "/storage", Reply(200, DATA))
        client = RegistryClient(server.host, insecure=True)
        client.set_header("X-Team", "models")
        client.set_header("authorization", "Bearer mine")
        assert client.get_blob("r", digest).content == DATA
        client.close()
        assert [seen.headers.get("x-team") for seen in server.seen] == ["models"] * 3
        assert [seen.authorization for seen in server.seen] == [None, "Bearer t-1", "Bearer t-1"]
        assert [(seen.headers.get("x-team"), seen.authorization) for seen in other.seen] == [(None, None)] * 2


@pytest.mark.parametrize(("kind", "refused"), [("stock", False), ("ours", True)])
def test_bytes_that_were_altered_differs(kind: str, refused: bool, tmp_path: Path) -> None:
    # oras-py takes whatever it gets; ours gives a file its name once its digest is right.
    data = bytes(range(256)) * 80_000
    path, target = f"/v2/r/blobs/{sha256_digest(data)}", tmp_path / "folder" / "file"
    with FaultServer() as server:
        server.on("HEAD", path, Reply(200, data))
        server.on("GET", path, Reply(200, data[:-1] + b"x"))
        client = CLIENTS[kind](hostname=server.host, insecure=True)
        try:
            client.download_blob("r", sha256_digest(data), str(target))
            assert not refused
            assert target.read_bytes() == data[:-1] + b"x"
        except IntegrityError:
            assert refused
            assert list(target.parent.iterdir()) == []
        client.close() if refused else client.session.close()
