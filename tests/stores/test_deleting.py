# SPDX-License-Identifier: Apache-2.0
"""Looking for manifests without fetching them, deleting tags and manifests, and listing repositories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ocibridge.errors import FormatError, StoreError
from ocibridge.oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, Index, RegistryReference
from ocibridge.stores.archive import ArchiveStore
from ocibridge.stores.registry import Hosts, RegistryClient, RegistryStore

from ..registry import RegistryServer
from .registry.fault_server import FaultServer, Reply
from .samples import sample

MODEL = sample(b"one")
OTHER = sample(b"two")


def test_a_new_place_is_known_as_one(registry: RegistryServer, repository: str) -> None:
    with RegistryStore(RegistryReference(registry.host, repository)) as store:
        assert store.is_new()
        assert store.capabilities.mount_scope == f"http://{registry.host}"
        MODEL.push(store, "v1")
        assert not store.is_new()


def test_a_batch_of_an_archive_is_whole_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with ArchiveStore(path, create=True) as store:
        with store.batch():
            MODEL.push(store, "v1")
            assert not path.exists()
            MODEL.assert_in(store, "v1")
        before = path.read_bytes()
        with pytest.raises(StoreError, match="enough"), store.batch():
            OTHER.push(store, "v2")
            raise StoreError("enough")
        assert path.read_bytes() == before
        assert store.tags() == ["v1"]
        OTHER.push(store, "v3")
    assert ArchiveStore(path).tags() == ["v1", "v3"]
    assert [each.name for each in tmp_path.iterdir()] == ["a.tar"]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def strange(server: FaultServer) -> Iterator[RegistryStore]:
    with RegistryStore(RegistryReference(server.host, "r")) as store:
        yield store


FULL = {"Content-Type": MEDIA_TYPE_MANIFEST, "Docker-Content-Digest": MODEL.digest}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(405),
        Reply(200, MODEL.manifest, {"Content-Type": MEDIA_TYPE_MANIFEST}),
        Reply(200, MODEL.manifest, {"Docker-Content-Digest": MODEL.digest}),
        Reply(200, MODEL.manifest, {**FULL, "Docker-Content-Digest": "sha512:0"}),
        Reply(200, b"", FULL, length=False),
    ],
)
def test_a_head_that_does_not_tell_is_followed_by_a_get(
    server: FaultServer, strange: RegistryStore, reply: Reply
) -> None:
    server.on("HEAD", "/v2/r/manifests/v1", reply)
    server.on("GET", "/v2/r/manifests/v1", Reply(200, MODEL.manifest, FULL))
    assert strange.head("v1") == Descriptor.of(MODEL.manifest, MEDIA_TYPE_MANIFEST)
    assert len(server.requests("GET")) == 1


def test_a_head_that_tells_is_enough(server: FaultServer, strange: RegistryStore) -> None:
    server.on("HEAD", "/v2/r/manifests/v1", Reply(200, MODEL.manifest, FULL))
    assert strange.head("v1") == Descriptor.of(MODEL.manifest, MEDIA_TYPE_MANIFEST)
    assert not server.requests("GET")


def test_where_deleting_is_forbidden_nothing_is_touched(
    server: FaultServer, strange: RegistryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "0")
    empty = Index(manifests=[], annotations={"org.ocibridge.deleted": "v1 0"}).to_json()
    digest = Descriptor.of(empty, MEDIA_TYPE_INDEX).digest
    refusal = Reply(405, b'{"errors":[{"code":"UNSUPPORTED","message":"no"}]}')
    server.on("HEAD", "/v2/r/manifests/v1", Reply(200, MODEL.manifest, FULL))
    server.on("PUT", f"/v2/r/manifests/{digest}", Reply(201))
    for version in ("v1", digest):
        server.on("DELETE", f"/v2/r/manifests/{version}", refusal)
    with pytest.raises(StoreError) as caught:
        strange.delete("v1")
    assert "its administrator can" in (caught.value.hint or "")
    assert not server.requests("PUT", "/v2/r/manifests/v1")


def test_a_registry_that_deletes_tags_is_asked_to(server: FaultServer, strange: RegistryStore) -> None:
    server.on("HEAD", "/v2/r/manifests/v1", Reply(200, MODEL.manifest, FULL))
    server.on("DELETE", "/v2/r/manifests/v1", Reply(202))
    strange.delete("v1")
    assert len(server.requests("DELETE")) == 1
    assert not server.requests("PUT")


def test_a_login_that_does_not_suffice(server: FaultServer, strange: RegistryStore) -> None:
    server.on("HEAD", "/v2/r/manifests/v1", Reply(200, MODEL.manifest, FULL))
    server.on("DELETE", "/v2/r/manifests/v1", Reply(403))
    with pytest.raises(StoreError) as caught:
        strange.delete("v1")
    assert caught.value.status == 403
    assert not server.requests("PUT")


def test_repositories_of_a_registry(registry: RegistryServer, repository: str) -> None:
    names = [f"{repository}/{word}" for word in ("a", "b", "c")]
    with Hosts() as hosts:
        for name in names:
            MODEL.push(RegistryStore(RegistryReference(registry.host, name), hosts=hosts), "v1")
        assert set(names) <= set(RegistryClient(hosts=hosts).list_repositories(registry.host))


def test_pages_of_repositories(server: FaultServer) -> None:
    def page(seen: object) -> Reply:
        path = seen.path  # type: ignore[attr-defined]
        if "last=" in path:
            return Reply(200, b'{"repositories":["b","c"]}')
        return Reply(200, b'{"repositories":["a","b"]}', {"Link": '</v2/_catalog?last=b&n=2>; rel="next"'})

    server.on("GET", "/v2/_catalog", page)
    with closing(RegistryClient()) as client:
        assert list(client.list_repositories(server.host)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(200, b'{"repositories":["../x"]}'), FormatError, "which is no name of a repository"),
        (Reply(200, b'{"repositories":["a:b"]}'), FormatError, "which is no name of a repository"),
        (Reply(200, b'{"repositories":[7]}'), FormatError, "which is no name of a repository"),
        (Reply(200, b'{"names":[]}'), FormatError, "the list of repositories is not valid"),
        (Reply(200, b"[]"), FormatError, "the list of repositories is not valid"),
        (
            Reply(200, b'{"repositories":[]}', {"Link": '<http://elsewhere.example/v2/_catalog>; rel="next"'}),
            StoreError,
            "the next page is on another host",
        ),
        (Reply(404), StoreError, "listing the repositories failed with status 404"),
    ],
)
def test_lists_that_are_not_to_be_trusted(
    server: FaultServer, reply: Reply, kind: type[Exception], message: str
) -> None:
    server.on("GET", "/v2/_catalog", reply)
    with closing(RegistryClient()) as client, pytest.raises(kind, match=message):
        list(client.list_repositories(server.host))


def test_an_empty_registry(server: FaultServer) -> None:
    server.on("GET", "/v2/_catalog", Reply(200, b'{"repositories":null}'))
    with closing(RegistryClient()) as client:
        assert list(client.list_repositories(server.host)) == []


def test_an_index_is_found_by_its_head(server: FaultServer, strange: RegistryStore) -> None:
    kinds = {"Content-Type": f"{MEDIA_TYPE_INDEX}; charset=utf-8", "Docker-Content-Digest": MODEL.digest}
    server.on("HEAD", f"/v2/r/manifests/{MODEL.digest}", Reply(200, MODEL.manifest, kinds))
    found = strange.head(MODEL.digest)
    assert found is not None
    assert found.media_type == MEDIA_TYPE_INDEX
