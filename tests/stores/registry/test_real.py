# SPDX-License-Identifier: Apache-2.0
"""Against the real registry."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from ocibridge.errors import AuthenticationError, IntegrityError, NetworkError, NotFound, StoreError, UsageError
from ocibridge.io.content import BytesContent, FileContent, read_all
from ocibridge.oci import (
    EMPTY_CONFIG,
    MEDIA_TYPE_EMPTY,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Descriptor,
    Index,
    Manifest,
    RegistryReference,
)
from ocibridge.stores.registry import Hosts, Login, RegistryOptions, RegistryStore, Retry, login, logout
from tests.registry import PASSWORD, TLS, USER, RegistryServer, registry_server

FAST = Retry(attempts=3, first=0.01)


def store_for(host: str, repository: str, hosts: Hosts | None = None, **options: Any) -> RegistryStore:
    return RegistryStore(RegistryReference(host, repository), RegistryOptions(retries=FAST, **options), hosts)


def blob(data: bytes) -> Descriptor:
    return Descriptor.of(data, "application/octet-stream")


def push_artifact(store: RegistryStore, tag: str | None, **more: Any) -> tuple[Descriptor, bytes]:
    config = Descriptor.of(EMPTY_CONFIG, MEDIA_TYPE_EMPTY)
    store.push_blob(config, BytesContent(EMPTY_CONFIG))
    data = Manifest(config=config, layers=[], **more).to_json()
    return store.push_manifest(data, MEDIA_TYPE_MANIFEST, tag), data


@pytest.mark.parametrize("size", [0, 1, 1_000_003])
def test_blob_round_trip(registry: RegistryServer, repository: str, size: int) -> None:
    data = hashlib.shake_128(b"x").digest(size)
    counts: list[int] = []
    with store_for(registry.host, repository) as store:
        assert not store.has_blob(blob(data))
        store.push_blob(blob(data), BytesContent(data), counts.append)
        assert sum(counts) == size
        assert store.has_blob(blob(data))
        with store.open_blob(blob(data)) as reader:
            assert reader.read() == data
        with store._open_blob(blob(data), size // 3) as reader:
            assert reader.read() == data[size // 3 :]
        with store._open_blob(blob(data), size) as reader:
            assert reader.read() == b""


def test_chunked_upload(registry: RegistryServer, repository: str) -> None:
    data = hashlib.shake_128(b"y").digest(900_000)
    with store_for(registry.host, repository) as store:
        store.client.push_blob(store.container, blob(data), BytesContent(data), chunk=400_000)
        assert store.read_blob(blob(data), len(data)) == data


def test_wrong_digest_is_refused_by_the_registry(registry: RegistryServer, repository: str) -> None:
    with store_for(registry.host, repository) as store:
        counts: list[int] = []
        with pytest.raises(IntegrityError, match="other bytes than were promised"):
            store.push_blob(blob(b"abc"), BytesContent(b"abd"), counts.append)
        assert sum(counts) == 0
        assert not store.has_blob(blob(b"abc"))
        with pytest.raises(IntegrityError, match="4 bytes where 3"):
            store.push_blob(blob(b"abc"), BytesContent(b"abcd"))


def test_manifests_are_kept_byte_for_byte(registry: RegistryServer, repository: str) -> None:
    with store_for(registry.host, repository) as store:
        descriptor, data = push_artifact(store, None)
        odd = json.dumps(json.loads(data), indent=3).encode() + b"\n \n"
        pushed = store.push_manifest(odd, MEDIA_TYPE_MANIFEST, "odd")
        assert store.fetch_manifest("odd") == (pushed, odd)
        assert store.fetch_manifest(descriptor.digest) == (descriptor, data)
        index = Index(manifests=[pushed]).to_json()
        listed = store.push_manifest(index, MEDIA_TYPE_INDEX, "all")
        assert listed.media_type == MEDIA_TYPE_INDEX
        assert store.resolve("all") == listed
        assert store.tags() == ["all", "odd"]


def test_what_is_not_there(registry: RegistryServer, repository: str) -> None:
    with store_for(registry.host, repository) as store:
        with pytest.raises(NotFound, match=rf"{repository}: pulling the manifest v1 failed with status 404") as caught:
            store.fetch_manifest("v1")
        assert caught.value.code in ("MANIFEST_UNKNOWN", "NAME_UNKNOWN")
        with pytest.raises(NotFound):
            store.open_blob(blob(b"none"))
        with pytest.raises(NotFound):
            store.tags()


def test_manifest_with_a_missing_blob(registry: RegistryServer, repository: str) -> None:
    with store_for(registry.host, repository) as store:
        manifest = Manifest(config=blob(b"never pushed"), layers=[]).to_json()
        with pytest.raises(StoreError) as caught:
            store.push_manifest(manifest, MEDIA_TYPE_MANIFEST, "v1")
        assert caught.value.code == "MANIFEST_BLOB_UNKNOWN"
        assert "push again" in str(caught.value)


def test_mount(registry: RegistryServer, repository: str) -> None:
    with Hosts() as hosts:
        source = store_for(registry.host, repository, hosts)
        target = store_for(registry.host, f"{repository}-copy", hosts)
        source.push_blob(blob(b"mounted"), BytesContent(b"mounted"))
        assert target.mount_blob(blob(b"mounted"), source)
        assert target.read_blob(blob(b"mounted"), 10) == b"mounted"
        assert not target.mount_blob(blob(b"unknown"), source)
        assert source.mount_blob(blob(b"mounted"), source)


def test_two_repositories_share_one_host(registry: RegistryServer) -> None:
    with Hosts() as hosts:
        a, b = store_for(registry.host, "a/b", hosts), store_for(registry.host, "c/d", hosts)
        assert a.host is b.host
        a.close()
        b.has_blob(blob(b"x"))


def test_tags_of_many_pages(registry: RegistryServer, repository: str) -> None:
    with store_for(registry.host, repository) as store:
        _, data = push_artifact(store, None)
        names = [f"v{number:03}" for number in range(30)]
        for name in names:
            store.push_manifest(data, MEDIA_TYPE_MANIFEST, name)
        assert store.tags() == names
        container = store.client.container(registry.host, repository)
        assert len(store.client.get_tags(container, N=7)) == 7


def test_referrers_through_the_fallback_tag(registry: RegistryServer, repository: str) -> None:
    with store_for(registry.host, repository) as store:
        subject, _ = push_artifact(store, "v1")
        assert store.referrers(subject.digest) == []
        a, data = push_artifact(
            store, None, subject=subject, artifact_type="application/x.signature", annotations={"k": "1"}
        )
        push_artifact(store, None, subject=subject, artifact_type="application/x.other")
        store.push_manifest(data, MEDIA_TYPE_MANIFEST, None)  # a second time: one entry all the same
        assert len(store.referrers(subject.digest)) == 2
        (found,) = store.referrers(subject.digest, "application/x.signature")
        assert (found.digest, found.annotations) == (a.digest, {"k": "1"})


def test_stock_entry_points(registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"hello\n" * 1000)
    with store_for(registry.host, repository) as store:
        client, target = store.client, f"{registry.host}/{repository}:v1"
        response = client.push(target, files=[str(source)], disable_path_validation=True, quiet=True)
        assert response.status_code == 201
        (pulled,) = client.pull(target, outdir=str(tmp_path / "out"))
        assert Path(pulled).read_bytes() == source.read_bytes()
        data, _ = client.fetch_manifest(store.container, "v1")
        assert client.get_manifest(target) == json.loads(data)
        digest = json.loads(data)["layers"][0]["digest"]
        with client.get_blob(target, digest, stream=True) as streamed:
            assert b"".join(streamed.iter_content(1000)) == source.read_bytes()
        assert client.delete_tag(target, "v1")
        with pytest.raises(NotFound):
            client.get_manifest(target)
        with pytest.raises(NotFound):
            client.download_blob(target, blob(b"none").digest, str(tmp_path / "none"))
        assert not list(tmp_path.glob("*none*")) + list(tmp_path.glob(".part*"))


def test_login_and_logout(auth_registry: RegistryServer, repository: str, isolated: Path) -> None:
    host = auth_registry.host
    with store_for(host, repository) as store:
        with pytest.raises(AuthenticationError, match=f"ocibridge login {host}"):
            push_artifact(store, "v1")
    with pytest.raises(AuthenticationError, match="refused the login") as caught:
        login(host, USER, "wrong-password")
    assert "wrong-password" not in str(caught.value)
    config = isolated / ".docker" / "config.json"
    assert not config.exists()
    assert login(host, USER, PASSWORD) == Login(str(config), proven=True)
    assert config.stat().st_mode & 0o777 == 0o600
    with store_for(host, repository) as store:
        push_artifact(store, "v1")
        assert store.tags() == ["v1"]
    assert logout(host)
    assert not logout(host)
    with store_for(host, repository, username=USER, password=PASSWORD) as store:
        assert store.tags() == ["v1"]
        assert PASSWORD not in repr(store.options)


def test_tls(tmp_path: Path, repository: str) -> None:
    with registry_server(tmp_path, tls=True) as server:
        for options in ({"ca_file": TLS / "ca.pem"}, {"insecure": True}):
            with store_for(server.host, repository, plain_http=False, **options) as store:
                push_artifact(store, "v1")
        with store_for(server.host, repository, plain_http=False) as store:
            with pytest.raises(NetworkError, match=r"not trusted.*--ca-file"):
                store.tags()
        # Nobody has to say that a registry on this machine speaks TLS, and its certificate counts all the same.
        with store_for(server.host, repository) as store:
            with pytest.raises(NetworkError, match=r"not trusted.*--ca-file"):
                store.fetch_manifest("v1")
        with store_for(server.host, repository, ca_file=TLS / "ca.pem") as store:
            assert store.tags() == ["v1"]
        with store_for(server.host, repository, plain_http=True) as store:
            with pytest.raises(StoreError, match="--no-plain-http"):
                store.fetch_manifest("v1")
        with store_for(server.host, repository, plain_http=False, ca_file=TLS / "server.key") as store:
            with pytest.raises(UsageError, match="PEM"):
                store.tags()


def test_plain_http_where_tls_is_expected(registry: RegistryServer, repository: str) -> None:
    with store_for(registry.host, repository, plain_http=False) as store:
        with pytest.raises(NetworkError, match="--plain-http"):
            store.tags()


def test_file_content_streams(registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    path = tmp_path / "big"
    data = hashlib.shake_128(b"z").digest(1 << 20) * 5
    path.write_bytes(data)
    with store_for(registry.host, repository) as store:
        store.push_blob(blob(data), FileContent(path))
        assert read_all(FileContent(path)) == store.read_blob(blob(data), len(data))


def test_the_registry_is_the_one_announced(registry: RegistryServer) -> None:
    assert httpx.get(f"http://{registry.host}/v2/", trust_env=False).status_code == 200
